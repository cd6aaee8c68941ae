"""Exchanges between clients and nodes, each through places that yield a turn (`test_wakeups`).

Each asserts how long it took on a clock that advances only when nothing else can run: not at all, unless a
timer is part of what it passes through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mirrormq import limits
from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.metadata import commands, records
from mirrormq.peers import peer_limits as link_limits
from mirrormq.queues.publish_ids import PREFIX
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.ranges import backup_protocol, range_protocol
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.replication.replication_limits import ReplicationLimits
from mirrormq.runtime import amqp_socket
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of
from tests.wakeups.nodes import Client, World

Exchange = Callable[[World], Awaitable[None]]


@contextmanager
def takes(world: World, most_ms: float = 0) -> Iterator[None]:
    """The exchange within waits for timers of at most this much in all."""
    began = world.now_ms
    yield
    took = world.now_ms - began
    assert took <= most_ms + 1e-6, f"it waited {took:.0f} ms for timers, not {most_ms:.0f}"


async def declare(client: Client, name: str, **options: Any) -> None:
    arguments = table_of(options.pop("arguments", {}))
    client.send(methods.encode_queue_declare(name, arguments=arguments, **options))
    await client.until(methods.QUEUE_DECLARE_OK)


async def _confirming(client: Client) -> None:
    client.send(methods.encode_confirm_select())
    await client.until(methods.CONFIRM_SELECT_OK)


async def fill(client: Client, name: str, count: int, size: int = 1, **properties: Any) -> None:
    """Publish to a queue of the client's own node, up to the last confirm."""
    await _confirming(client)
    client.publish(name, count, size, **properties)
    await client.until_confirmed(count)


# -- one client on one node -------------------------------------------------------------------------


async def login(world: World) -> None:
    with takes(world):
        await world.connect()


async def declarations(world: World) -> None:
    client = await world.connect()
    with takes(world):
        client.send(*[methods.encode_queue_declare(f"q{number}", durable=True) for number in range(300)])
        await client.until(methods.QUEUE_DECLARE_OK, 300)


async def small_methods(world: World) -> None:
    client = await world.connect()
    with takes(world):
        client.send(*[methods.encode_basic_qos(0, 1, False)] * 20_000)
        await client.until(methods.BASIC_QOS_OK, 20_000)


async def publishes_with_headers(world: World) -> None:
    client = await world.connect()
    await declare(client, "q")
    await _confirming(client)
    headers = table_of({f"h{number}": "x" * 100 for number in range(50)})
    with takes(world):
        for number in range(500):
            client.publish("q", 1, headers=headers, message_id=str(number))
            client.publish("q", 1, size=0)
        await client.until_confirmed(1_000)


async def large_publishes(world: World) -> None:
    client = await world.connect()
    await declare(client, "q")
    with takes(world):
        await fill(client, "q", 300, 100_000)


async def persistent_publishes(world: World) -> None:
    client = await world.connect()
    await declare(client, "q", durable=True)
    with takes(world):
        await fill(client, "q", 5_000, delivery_mode=2)


async def large_replies(world: World) -> None:
    client = await world.connect()
    await declare(client, "q")
    await fill(client, "q", 60, 100_000)
    with takes(world):
        client.send(*[methods.encode_basic_get("q", no_ack=True)] * 60)
        await client.until(methods.BASIC_GET_OK, 60)


async def backlog(world: World) -> None:
    client = await world.connect()
    await declare(client, "q")
    await fill(client, "q", 10_000)
    with takes(world):
        client.send(methods.encode_basic_consume("q", "c", no_ack=True))
        await client.until(methods.BASIC_DELIVER, 10_000)


async def large_backlog(world: World) -> None:
    client = await world.connect()
    await declare(client, "q")
    await fill(client, "q", 100, 100_000)
    with takes(world):
        client.send(methods.encode_basic_consume("q", "c"))
        await client.until(methods.BASIC_DELIVER, 100)


async def slow_reader(world: World) -> None:
    """The client reads nothing until the node's socket is full."""
    client = await world.connect()
    await declare(client, "q")
    await fill(client, "q", 300, 100_000)
    client.send(methods.encode_basic_consume("q", "c"))
    await asyncio.sleep(1)
    with takes(world):
        await client.until(methods.BASIC_DELIVER, 300)


async def congested_queue(world: World) -> None:
    """A publisher outruns a consumer that holds what it has: it rests, and each rest ends by itself."""
    client = await world.connect()
    await declare(client, "q")
    client.send(methods.encode_basic_qos(0, 1, False), methods.encode_basic_consume("q", "c"))
    await client.until(methods.BASIC_CONSUME_OK)
    rests = 20_000 // limits.PUBLISHER_CREDIT
    with takes(world, rests * limits.PUBLISHER_REST_S * 1000):
        await fill(client, "q", 20_000)


async def expiry(world: World) -> None:
    """Messages that expire together become dead letters together."""
    client = await world.connect()
    await declare(client, "dead", durable=True)
    to_dead = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await declare(client, "q", durable=True, arguments=to_dead)
    client.send(methods.encode_basic_consume("dead", "c", no_ack=True))
    await client.until(methods.BASIC_CONSUME_OK)
    with takes(world, 1000):
        await fill(client, "q", 1_000, delivery_mode=2)
        await client.until(methods.BASIC_DELIVER, 1_000)


async def alarm(world: World) -> None:
    """A publisher is blocked by an alarm, and goes on when the operator ends it."""
    client = await world.connect()
    await declare(client, "q")
    await _confirming(client)
    application = world.nodes[0].application
    assert application is not None
    application.set_memory_watermark(None, 0)
    with takes(world):
        client.publish("q", 1)
        await client.until(methods.CONNECTION_BLOCKED)
        application.set_memory_watermark(0.9, None)
        await client.until(methods.CONNECTION_UNBLOCKED)
        await client.until_confirmed(1)


async def lease(world: World) -> None:
    client = await world.connect()
    await declare(client, "q", durable=True)
    await fill(client, "q", 100, delivery_mode=2)
    client.send(methods.encode_basic_consume(range_protocol.REPLY_QUEUE, "r", no_ack=True))
    await client.until(methods.BASIC_CONSUME_OK)
    take = {"ask": "take", "queue": "q", "lease": "l", "number": 1, "messages": 50, "bytes": 1 << 20}
    with takes(world):
        handle_range_request(client, take | {"idle_ms": 60_000})
        await client.until(methods.BASIC_DELIVER)


async def restored_publish_ids(world: World) -> None:
    """A restore appends a message for a publish id, then removes it when the disk has it."""
    client = await world.connect()
    await declare(client, "q", durable=True)
    client.send(methods.encode_basic_consume(range_protocol.REPLY_QUEUE, "r", no_ack=True))
    await client.until(methods.BASIC_CONSUME_OK)
    restore = {"ask": "restore", "part": "producers", "vhost": "/", "queue": "q"}
    with takes(world):
        handle_range_request(client, restore, backup_protocol.encode({f"{PREFIX}p:": 7}))
        await client.until(methods.BASIC_DELIVER)


def handle_range_request(client: Client, question: dict[str, Any], body: bytes = b"") -> None:
    client.publish(
        range_protocol.ROUTING_KEY, 1, 0, headers=table_of(question), reply_to=range_protocol.REPLY_QUEUE,
        correlation_id="1", body=body,
    )  # fmt: skip


# -- several nodes ----------------------------------------------------------------------------------


async def behind_a_declaration(world: World) -> None:
    """A channel that waits for the cluster has more frames put aside than its connection may."""
    client = await world.connect(1)
    await declare(client, "q")
    await _confirming(client)
    with takes(world):
        client.send(*[methods.encode_queue_declare(f"q{number}", durable=True) for number in range(50)])
        client.publish("q", 40, 100_000)
        await client.until(methods.QUEUE_DECLARE_OK, 50)
        await client.until_confirmed(40)


async def _two_clients(world: World) -> tuple[Client, Client]:
    """One at the node of a queue `q`, one at another node."""
    near, far = await world.connect(0), await world.connect(1)
    await declare(near, "q")
    return near, far


async def remote_publishes(world: World) -> None:
    near, far = await _two_clients(world)
    await declare(near, "r")
    await _confirming(far)
    with takes(world):
        for _ in range(1_500):
            far.publish("q", 1, 1_000)
            far.publish("r", 1, 1_000)
        await far.until_confirmed(3_000)


async def remote_consumer(world: World) -> None:
    near, far = await _two_clients(world)
    await fill(near, "q", 6_000, 1_000)
    with takes(world):
        far.send(methods.encode_basic_consume("q", "c", no_ack=True))
        await far.until(methods.BASIC_DELIVER, 6_000)


async def remote_consumer_of_a_full_stream(world: World) -> None:
    await remote_consumer(world)


async def remote_gets(world: World) -> None:
    near, far = await _two_clients(world)
    await fill(near, "q", 100, 50_000)
    for number in range(2, 22):
        far.send(methods.encode_channel_open(), channel=number)
    await far.until(methods.CHANNEL_OPEN_OK, 20)
    with takes(world):
        for number in range(2, 22):
            far.send(*[methods.encode_basic_get("q", no_ack=True)] * 5, channel=number)
        await far.until(methods.BASIC_GET_OK, 100)


async def remote_range_reads(world: World) -> None:
    """Questions about ranges wait for the stream behind messages that were got."""
    near, far = await _two_clients(world)
    await declare(near, "d", durable=True)
    await fill(near, "d", 100, 50_000, delivery_mode=2)
    far.send(methods.encode_basic_consume(range_protocol.REPLY_QUEUE, "r", no_ack=True))
    for number in range(2, 12):
        far.send(methods.encode_channel_open(), channel=number)
    await far.until(methods.CHANNEL_OPEN_OK, 10)
    with takes(world):
        for number in range(2, 12):
            far.send(methods.encode_basic_get("d"), channel=number)
        for _ in range(10):
            handle_range_request(far, {"ask": "extent", "queue": "d"})
        await far.until(methods.BASIC_GET_OK, 10)
        await far.until(methods.BASIC_DELIVER, 10)


async def remote_dead_letters(world: World) -> None:
    """Dead letters go to a queue of another node that can take few of them at a time."""
    near, far = await _two_clients(world)
    to_q = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-max-length": 1}
    await declare(far, "source", arguments=to_q)
    near.send(methods.encode_basic_consume("q", "c", no_ack=True))
    await near.until(methods.BASIC_CONSUME_OK)
    with takes(world):
        await fill(far, "source", 201, 1_000)
        await near.until(methods.BASIC_DELIVER, 200)


async def mirrored(world: World, **keys: str) -> Client:
    definition = {"ha-mode": "all", "ha-sync-mode": "automatic", **keys}
    world.nodes[0].metadata.write(commands.PutPolicy(records.Policy("/", "all", ".*", "queues", definition)))
    client = await world.connect()
    await declare(client, "m", durable=True)
    while len(world.nodes[0].metadata.state.queues["/", "m"].ring.in_sync) < len(world.nodes):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return client


async def late_mirrors(world: World) -> None:
    client = await mirrored(world)
    with takes(world):
        await fill(client, "m", 3_000, 1_000, delivery_mode=2)


async def gated_deliveries(world: World) -> None:
    """With `ha-redeliver: lost`, deliveries and gets wait until every mirror has the message."""
    client = await mirrored(world, **{"ha-redeliver": "lost"})
    far = await world.connect(1)
    far.send(methods.encode_basic_consume("m", "c"))
    await far.until(methods.BASIC_CONSUME_OK)
    with takes(world):
        client.publish("m", 100, 1_000, delivery_mode=2)
        await far.until(methods.BASIC_DELIVER, 100)
    far.send(methods.encode_basic_cancel("c", False))
    await far.until(methods.BASIC_CANCEL_OK)
    with takes(world):
        for _ in range(20):
            client.publish("m", 1, delivery_mode=2)
            client.send(methods.encode_basic_get("m"))
            await client.until(methods.BASIC_GET_OK)


async def congested_link(world: World) -> None:
    client = await mirrored(world)
    with takes(world):
        await fill(client, "m", 100, 100_000, delivery_mode=2)


NODES: dict[Exchange, int] = {
    behind_a_declaration: 2,
    congested_link: 2,
    gated_deliveries: 2,
    late_mirrors: 2,
    remote_consumer: 2,
    remote_consumer_of_a_full_stream: 2,
    remote_dead_letters: 2,
    remote_gets: 2,
    remote_publishes: 2,
    remote_range_reads: 2,
}
"""Number of nodes that an exchange needs, if more than one."""

SMALLER: dict[Exchange, tuple[tuple[ModuleType, str, int], ...]] = {
    congested_link: (
        (link_limits, "CONGESTED_BYTES", 256 * 1024),
        (link_limits, "RELIEVED_BYTES", 128 * 1024),
        (link_limits, "WRITE_BYTES_PER_TURN", 64 * 1024),
    ),
    large_publishes: ((amqp_socket, "READ_BYTES_PER_EFFORT", 16),),
    publishes_with_headers: ((limits, "TURN_EFFORT", 64),),
}
"""Limits that an exchange makes smaller, so that it reaches them with few messages."""

LIMITS: dict[Exchange, BrokerLimits] = {
    expiry: BrokerLimits(queues=QueueLimits(expired_batch_max=32, dead_letters_under_way_max=100)),
    late_mirrors: BrokerLimits(ReplicationLimits(ring_behind_operations=10, ring_behind_bytes=10_000)),
    remote_consumer: BrokerLimits(remote=RemoteLimits(delivered_bytes_max=64 * 1024)),
    remote_consumer_of_a_full_stream: BrokerLimits(remote=RemoteLimits(stream_bytes_max=4 * 1024)),
    remote_dead_letters: BrokerLimits(remote=RemoteLimits(publish_bytes_max=10_000)),
    remote_gets: BrokerLimits(remote=RemoteLimits(stream_bytes_max=64 * 1024)),
    remote_publishes: BrokerLimits(
        remote=RemoteLimits(publish_bytes_max=64 * 1024, stream_bytes_max=16 * 1024, frame_bytes=4 * 1024)
    ),
    remote_range_reads: BrokerLimits(remote=RemoteLimits(stream_bytes_max=64 * 1024)),
}
"""Places for limits that a node receives at its construction."""
