"""Lines of CPU per message that one node and a cluster share: publishing, consuming, many clients."""

from __future__ import annotations

from itertools import cycle

from benchmarks.costs import Cost, CostLine, Measure, Setup, Target, declared, spend
from benchmarks.raw_links import (
    Consumer,
    PacedPublisher,
    Publisher,
    RawLink,
    RpcClient,
    RpcServer,
    publish,
)
from mirrormq.wire.fields import Field
from mirrormq.wire.properties import BasicProperties

QUEUE = "bench"
POOL_MESSAGES = 20_000
"""Prepared messages that a publisher sends in turn: more than any cache of a broker holds."""
WINDOW = 1000
CHUNK = 50
BACKLOG = 30_000
CLIENTS = 50
FANOUT_QUEUES = 10
KEYS = tuple(f"stock.region{number}.price" for number in range(10))
PATTERN = "stock.*.price"
PERSISTENT = BasicProperties(delivery_mode=2)
TRANSIENT = BasicProperties()


def unlike_messages(count: int = POOL_MESSAGES) -> list[bytes]:
    """Return publishes with ten routing keys in turn and properties and bodies of their own."""
    return [
        publish(
            "amq.topic",
            KEYS[number % len(KEYS)],
            BasicProperties(
                content_type="application/json",
                headers={
                    "tenant": Field("S", f"tenant-{number % 7}".encode()),
                    "attempt": Field("I", number % 3),
                },
                delivery_mode=2,
                message_id=f"message-{number:09d}",
                timestamp=1_700_000_000 + number,
            ),
            b"x" * (50 + number * 37 % 101),
        )
        for number in range(count)
    ]


def varied_messages(queue: str, properties: BasicProperties = PERSISTENT) -> list[bytes]:
    """Return publishes with equal properties and bodies of 50 to 150 bytes."""
    return [publish("", queue, properties, b"x" * (50 + number * 37 % 101)) for number in range(101)]


def chunked(messages: list[bytes], size: int) -> list[bytes]:
    """Return messages joined to writes of `size` messages; the last incomplete write is left out."""
    return [b"".join(messages[at : at + size]) for at in range(0, len(messages) - size + 1, size)]


def topic_queue(setup: Setup) -> None:
    """Declare one durable queue that gets all unlike messages."""
    setup.queue(QUEUE, durable=True)
    setup.bind(QUEUE, "amq.topic", PATTERN)


def one_queue(setup: Setup) -> None:
    """Declare one durable queue."""
    setup.queue(QUEUE, durable=True)


def unlike(target: Target, seconds: float) -> Cost:
    """Publish unlike persistent messages, window 1000."""
    with declared(target, topic_queue):
        publisher = Publisher(target.uris[0], chunked(unlike_messages(), CHUNK), CHUNK, WINDOW)
        return spend(target, [publisher], [publisher], seconds)


def consume_unlike(prefetch: int) -> Measure:
    """Consume a backlog of unlike messages, acknowledged one by one."""

    def measure(target: Target, seconds: float) -> Cost:
        with declared(target, topic_queue):
            filler = Publisher(target.uris[0], chunked(unlike_messages(), CHUNK), CHUNK, WINDOW)
            filler.limit = BACKLOG
            spend(target, [filler], [filler], float("inf"), limit=BACKLOG)
            consumer = Consumer(target.uris[0], QUEUE, prefetch=prefetch)
            return spend(target, [consumer], [consumer], seconds, limit=BACKLOG)

    return measure


def batches(target: Target, seconds: float) -> Cost:
    """Publish varied messages in writes of 50, one write after its predecessor is confirmed; consume them."""
    with declared(target, one_queue):
        varied = chunked(varied_messages(QUEUE) * CHUNK, CHUNK)
        publisher = Publisher(target.uris[0], varied, CHUNK, CHUNK)
        consumer = Consumer(target.uris[0], QUEUE, prefetch=200)
        return spend(target, [publisher, consumer], [consumer], seconds)


def many_clients(window: int, pace: int = 0, publishers: int = CLIENTS, consumers: int = CLIENTS) -> Measure:
    """Publish and consume varied messages with many clients on all nodes in turn, one queue, ack each."""

    def measure(target: Target, seconds: float) -> Cost:
        with declared(target, one_queue):
            messages = varied_messages(QUEUE)
            uris = cycle(target.uris)
            kind = PacedPublisher if pace else Publisher
            sending: list[RawLink] = [
                kind(next(uris), messages, 1, window, start=7 * number) for number in range(publishers)
            ]
            taking: list[RawLink] = [Consumer(next(uris), QUEUE, prefetch=window) for _ in range(consumers)]
            counted = taking or sending
            return spend(target, [*taking, *sending], counted, seconds, pace=pace)

    return measure


def work_queue(target: Target, seconds: float) -> Cost:
    """Ten consumers with prefetch 1 beside a publisher that keeps the queue filled."""
    with declared(target, one_queue):
        uris = cycle(target.uris)
        publisher = Publisher(next(uris), varied_messages(QUEUE), 1, WINDOW // 10)
        workers = [Consumer(next(uris), QUEUE, prefetch=1) for _ in range(10)]
        return spend(target, [*workers, publisher], workers, seconds)


def rpc_links(uri: str, clients: int, servers: int) -> tuple[list[RpcServer], list[RpcClient]]:
    """Open servers of one request queue and clients with a reply queue each."""
    replies = [publish("", f"bench-reply-{n}", TRANSIENT, b"r" * 100) for n in range(clients)]
    asking = []
    for number in range(clients):
        properties = BasicProperties(reply_to=f"bench-reply-{number}", correlation_id=str(number))
        request = publish("", QUEUE, properties, number.to_bytes(2, "big") + b"q" * 98)
        asking.append(RpcClient(uri, f"bench-reply-{number}", request))
    return [RpcServer(uri, QUEUE, replies) for _ in range(servers)], asking


def rpc(target: Target, seconds: float) -> Cost:
    """Ask and reply: 40 clients, 4 servers, transient; a call counts once."""
    with declared(target, lambda setup: setup.queue(QUEUE)):
        servers, clients = rpc_links(target.uris[0], 40, 4)
        return spend(target, [*servers, *clients], clients, seconds)


def identical(durable: bool, consume: bool) -> Measure:
    """Publish equal messages of 100 bytes, window 1000, in long writes."""

    def measure(target: Target, seconds: float) -> Cost:
        with declared(target, lambda setup: setup.queue(QUEUE, durable=durable)):
            message = publish("", QUEUE, PERSISTENT if durable else TRANSIENT, b"x" * 100)
            publisher = Publisher(target.uris[0], [message * 100], 100, WINDOW)
            if not consume:
                return spend(target, [publisher], [publisher], seconds)
            consumer = Consumer(target.uris[0], QUEUE, prefetch=500)
            return spend(target, [consumer, publisher], [consumer], seconds)

    return measure


def identical_fanout(target: Target, seconds: float) -> Cost:
    """Publish equal transient messages to ten queues with consumers; a delivery counts."""
    queues = [f"bench-{number}" for number in range(FANOUT_QUEUES)]

    def declare(setup: Setup) -> None:
        for queue in queues:
            setup.queue(queue)
            setup.bind(queue, "amq.fanout", "")

    with declared(target, declare):
        message = publish("amq.fanout", "", TRANSIENT, b"x" * 100)
        publisher = Publisher(target.uris[0], [message * CHUNK], CHUNK, WINDOW)
        consumers = [Consumer(target.uris[0], queue, prefetch=500) for queue in queues]
        return spend(target, [*consumers, publisher], consumers, seconds)


COST_LINES = (
    CostLine(
        "unlike",
        "unlike publishes: amq.topic, ten routing keys, own properties, 50–150 B, persistent, window 1000",
        12,
        unlike,
        at_most_us=7,
    ),
    CostLine(
        "unlike-consume",
        "the same consumed, acknowledged one by one, prefetch 200",
        10,
        consume_unlike(200),
        at_most_us=4,
    ),
    CostLine("unlike-prefetch20", "the same with prefetch 20", 8, consume_unlike(20)),
    CostLine("batches", "batches of 50 varied messages, persistent, published and consumed", 12, batches),
    CostLine(
        "clients",
        "50 publishers × 50 consumers, window 10, varied, ack each, persistent",
        10,
        many_clients(10),
    ),
    CostLine("clients-window1", "the same, window 1", 7, many_clients(1), floor=True),
    CostLine("clients-paced", "the same, paced at 2,000/s", 4, many_clients(1, pace=2000), floor=True),
    CostLine("work-queue", "work queue, prefetch 1, ten consumers, persistent", 5, work_queue),
    CostLine("rpc", "RPC, 40 clients, 4 servers, transient (per call)", 5, rpc),
    CostLine("like-publish", "identical publishes, persistent", None, identical(True, False), at_most_us=5),
    CostLine(
        "like-transient",
        "identical messages, transient, published and consumed, ack each",
        None,
        identical(False, True),
    ),
    CostLine(
        "like-persistent",
        "identical messages, persistent, published and consumed, ack each",
        None,
        identical(True, True),
    ),
    CostLine(
        "like-fanout",
        "identical messages, transient, fanout to ten queues, ack each (per delivery)",
        None,
        identical_fanout,
        at_most_us=5,
    ),
)
