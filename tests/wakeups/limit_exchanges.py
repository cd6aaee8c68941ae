"""Exchanges that reach a limit of concurrent work: the limit holds, and what is left over is woken."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from mirrormq.broker.broker import Broker
from mirrormq.broker.broker_limits import DEFAULT_LIMITS, BrokerLimits
from mirrormq.cluster.coordinator import QUEUES_PER_TURN, Coordinator
from mirrormq.leases.lease_manager import LeaseManager
from mirrormq.leases.range_request_handler import PendingReply, RangeRequestHandler
from mirrormq.metadata import commands, records
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_limits import LEASED_AT_ONCE_MAX, READS_IN_FLIGHT_MAX, REST_MS
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.replication.synchronisation import Synchronisation
from mirrormq.wire import methods
from tests.wakeups.exchanges import LIMITS, declare, fill, handle_range_request, mirrored, takes
from tests.wakeups.nodes import Client, World

BATCH = 10
"""Messages of a batch of a synchronisation."""


@contextmanager
def observed(kind: type, name: str, look: Callable[[Any, Any], None]) -> Iterator[None]:
    """Call `look` with the object and the result of each call of a method."""
    original = getattr(kind, name)

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        look(self, result)
        return result

    setattr(kind, name, call)
    try:
        yield
    finally:
        setattr(kind, name, original)


def _broker(world: World) -> Broker:
    application = world.nodes[0].application
    assert application is not None
    return application.broker


async def _reader(world: World, messages: int) -> Client:
    """Return a client with a reply queue, and with messages in a durable queue."""
    client = await world.connect()
    await declare(client, "q", durable=True)
    await fill(client, "q", messages, delivery_mode=2)
    client.send(methods.encode_basic_consume(range_protocol.REPLY_QUEUE, "r", no_ack=True))
    await client.until(methods.BASIC_CONSUME_OK)
    return client


async def large_lease(world: World) -> None:
    """A take of more messages than become leased in one turn."""
    count = 2 * LEASED_AT_ONCE_MAX + 1
    client = await _reader(world, count)
    queue = _broker(world).vhosts["/"].queues["q"]
    assert isinstance(queue, Queue)
    ready = [queue.backing.ready_count]
    take = {"ask": "take", "queue": "q", "lease": "l", "number": 1, "messages": count, "bytes": 1 << 30}
    with observed(LeaseManager, "pump", lambda leases, more: ready.append(queue.backing.ready_count)):
        with takes(world):
            handle_range_request(client, take | {"idle_ms": 60_000})
            await client.until(methods.BASIC_DELIVER)
    leased = [before - after for before, after in pairwise(ready)]
    assert sum(leased) == count
    assert max(leased) == LEASED_AT_ONCE_MAX


async def many_reads(world: World) -> None:
    """More reads at once than a connection may have: the node refuses some at once, and takes later ones."""
    client = await _reader(world, 10)
    under_way: list[int] = []
    refused: list[object] = []

    def look(handler: Any, _: object) -> None:
        under_way.extend(handler._reading.values())

    read = {"ask": "read", "queue": "q", "from": 1, "to": 11, "limit_bytes": 1 << 20}
    for asked in (READS_IN_FLIGHT_MAX + 3, READS_IN_FLIGHT_MAX):
        with (
            observed(RangeRequestHandler, "_read", look),
            observed(PendingReply, "refused", lambda reply, _: refused.append(reply)),
            takes(world, asked * REST_MS),
        ):
            for _ in range(asked):
                handle_range_request(client, read)
            await client.until(methods.BASIC_DELIVER, asked)
        assert len(refused) == 3, "of the first ones only"
    assert max(under_way) == READS_IN_FLIGHT_MAX


def _put_policy(world: World, mode: str, **more: Any) -> None:
    definition = {"ha-mode": "all", "ha-sync-mode": mode, "ha-sync-batch-size": BATCH, **more}
    policy = records.Policy("/", "all", ".*", "queues", definition)
    world.nodes[0].metadata.write(commands.PutPolicy(policy))


async def _until_queues(world: World, fits: Callable[[records.Queue], bool]) -> None:
    """Wait for changes of the metadata until all queues fit."""
    changed = asyncio.Event()
    metadata = world.nodes[0].metadata
    metadata.listeners.append(lambda change: changed.set())
    while not all(map(fits, metadata.state.queues.values())):
        changed.clear()
        await changed.wait()


async def many_rings(world: World) -> None:
    """A policy changes the rings of more queues than the coordinator visits in one turn."""
    client = await world.connect()
    count = 2 * QUEUES_PER_TURN + 1
    client.send(*[methods.encode_queue_declare(f"q{number}", durable=True) for number in range(count)])
    await client.until(methods.QUEUE_DECLARE_OK, count)
    decided: list[int] = []

    def look(_: object, found: list[commands.Command]) -> None:
        decided.append(sum(len(each.changes) for each in found if isinstance(each, commands.ChangeViews)))

    with observed(Coordinator, "work", look), takes(world):
        _put_policy(world, "manual")
        await _until_queues(world, lambda queue: len(queue.ring.members) == 2)
    assert max(decided) == QUEUES_PER_TURN
    assert sum(decided) >= count


async def synchronisation(world: World) -> None:
    """A mirror is sent many batches."""
    client = await world.connect()
    _put_policy(world, "manual")
    await declare(client, "q", durable=True)
    await _until_queues(world, lambda queue: len(queue.ring.in_sync) == 2)
    await asyncio.sleep(1)
    world.nodes[0].metadata.write(commands.DeletePolicy("/", "all"))
    await _until_queues(world, lambda queue: len(queue.ring.members) == 1)
    await fill(client, "q", 50 * BATCH, delivery_mode=2)
    in_flight: list[int] = []

    def look(session: Any, _: object) -> None:
        in_flight.append(len(session._in_flight))

    with observed(Synchronisation, "next_batch", look), takes(world):
        _put_policy(world, "automatic")
        await _until_queues(world, lambda queue: len(queue.ring.in_sync) == 2)
    assert max(in_flight) == DEFAULT_LIMITS.replication.batches_in_flight


async def damaged_message(world: World) -> None:
    """The master requests a good copy from a node whose stream is full of deliveries."""
    client = await mirrored(world)
    await fill(client, "m", 40, 20_000, delivery_mode=2)
    node = world.nodes[0]
    assert node.application is not None
    journal = node.application.broker.journal
    store = journal.queue(node.metadata.state.queues["/", "m"].queue_id)
    journal.writer.seal()
    sequence = store.held()[20]
    position = store.table.get(sequence) or store.paged.get(sequence)
    segment = os.open(journal.segments.path(position >> 32), os.O_WRONLY)
    os.pwrite(segment, b"damage", (position & 0xFFFFFFFF) + 100)
    os.close(segment)
    far = await world.connect(1)
    with takes(world):
        far.send(methods.encode_basic_consume("m", "c", no_ack=True))
        await far.until(methods.BASIC_DELIVER, 40)
    assert journal.damage.repaired_total == 1


OF_TWO_NODES = (damaged_message, many_rings, synchronisation)
"""Exchanges that need a second node."""

LIMITS[damaged_message] = BrokerLimits(
    queues=QueueLimits(head_stored_messages=4, head_messages=4, page_messages=4),
    remote=RemoteLimits(stream_bytes_max=16 * 1024),
)
