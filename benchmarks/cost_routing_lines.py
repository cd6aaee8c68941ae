"""Lines of CPU per message of one node: exchanges, dead letters, returns, transactions, large bodies."""

from __future__ import annotations

from benchmarks.cost_lines import (
    CHUNK,
    PERSISTENT,
    QUEUE,
    TRANSIENT,
    WINDOW,
    chunked,
    one_queue,
    varied_messages,
)
from benchmarks.costs import FLOOR, Cost, CostLine, Measure, Setup, Target, declared, spend
from benchmarks.raw_links import Consumer, Getter, Publisher, ReturnCounter, Transactor, publish
from mirrormq.wire.fields import Field
from mirrormq.wire.properties import BasicProperties

EXCHANGE = "bench-exchange"
TARGET_QUEUE = "bench-target"
TOPIC_QUEUES, TOPIC_KEYS = 1000, 10_000
GET_BACKLOG = 10_000
TRANSACTION_MESSAGES = 10
DEAD_LETTER_MS = 50
LENGTH_MAX = 100
FANOUT_QUEUES = 50
KIB, MIB = 1 << 10, 1 << 20


def topic_patterns() -> list[str]:
    """Return 3,000 patterns of which about three match a key of `topic_keys`."""
    exact = [f"r{n % 100}.s{n // 10 % 100}.*" for n in range(TOPIC_QUEUES)]
    first = [f"r{n % 100}.*.t{n // 100 % 7}" for n in range(TOPIC_QUEUES)]
    second = [f"*.s{n % 100}.t{n // 100 % 7}" for n in range(TOPIC_QUEUES)]
    return [pattern for three in zip(exact, first, second, strict=True) for pattern in three]


def topic_keys() -> list[str]:
    return [f"r{n % 100}.s{n // 100 % 100}.t{n % 7}" for n in range(TOPIC_KEYS)]


def topic(target: Target, seconds: float) -> Cost:
    """Publish with 10,000 routing keys to 1,000 queues with three patterns each."""

    def declare(setup: Setup) -> None:
        setup.exchange(EXCHANGE, "topic")
        for number in range(TOPIC_QUEUES):
            setup.queue(f"bench-{number}")
        for number, pattern in enumerate(topic_patterns()):
            setup.bind(f"bench-{number // 3}", EXCHANGE, pattern)

    with declared(target, declare):
        messages = [publish(EXCHANGE, key, TRANSIENT, b"x" * 100) for key in topic_keys()]
        publisher = Publisher(target.uris[0], chunked(messages, CHUNK), CHUNK, WINDOW)
        return spend(target, [publisher], [publisher], seconds)


def headers(bindings: int) -> Measure:
    """Publish to a headers exchange with this many bindings of two headers, one of which matches."""

    def declare(setup: Setup) -> None:
        setup.exchange(EXCHANGE, "headers")
        for number in range(bindings):
            setup.queue(f"bench-{number}")
            setup.bind(
                f"bench-{number}",
                EXCHANGE,
                "",
                x_match="all",
                tenant=f"tenant-{number}",
                kind=f"kind-{number % 5}",
            )

    def measure(target: Target, seconds: float) -> Cost:
        with declared(target, declare):
            messages = []
            for number in range(2 * bindings // CHUNK * CHUNK):
                found = number % bindings
                table = {
                    "tenant": Field("S", f"tenant-{found}".encode()),
                    "kind": Field("S", f"kind-{found % 5}".encode()),
                    "attempt": Field("I", number),
                }
                messages.append(publish(EXCHANGE, "", BasicProperties(headers=table), b"x" * 100))
            publisher = Publisher(target.uris[0], chunked(messages, CHUNK), CHUNK, WINDOW)
            return spend(target, [publisher], [publisher], seconds)

    return measure


def dead_letters(**arguments: int) -> Measure:
    """Publish to a queue without consumers whose messages become dead letters; consume those."""

    def declare(setup: Setup) -> None:
        setup.queue(
            QUEUE,
            durable=True,
            exclusive=False,
            dead_letter_exchange="",
            dead_letter_routing_key=TARGET_QUEUE,
            **arguments,
        )
        setup.queue(TARGET_QUEUE, durable=True)

    def measure(target: Target, seconds: float) -> Cost:
        with declared(target, declare):
            varied = chunked(varied_messages(QUEUE) * CHUNK, CHUNK)
            publisher = Publisher(target.uris[0], varied, CHUNK, WINDOW)
            consumer = Consumer(target.uris[0], TARGET_QUEUE, prefetch=0, no_ack=True)
            return spend(target, [consumer, publisher], [consumer], seconds)

    return measure


def returns(target: Target, seconds: float) -> Cost:
    """Publish mandatory messages that reach no queue."""
    message = publish("amq.direct", "bench-nowhere", TRANSIENT, b"x" * 100, mandatory=True)
    publisher = ReturnCounter(target.uris[0], [message * CHUNK], CHUNK, WINDOW)
    return spend(target, [publisher], lambda: publisher.returned_count, seconds)


def transactions(target: Target, seconds: float) -> Cost:
    """Publish persistent messages in transactions of ten."""
    with declared(target, one_queue):
        chunks = chunked(varied_messages(QUEUE) * TRANSACTION_MESSAGES, TRANSACTION_MESSAGES)
        client = Transactor(target.uris[0], chunks, TRANSACTION_MESSAGES)
        return spend(target, [client], [client], seconds)


def get(target: Target, seconds: float) -> Cost:
    """Get and acknowledge a backlog one by one."""
    with declared(target, one_queue):
        if target.name != FLOOR:  # its answers need no backlog
            filler = Publisher(target.uris[0], chunked(varied_messages(QUEUE) * CHUNK, CHUNK), CHUNK, WINDOW)
            filler.limit = GET_BACKLOG
            spend(target, [filler], [filler], float("inf"), limit=GET_BACKLOG)
        getter = Getter(target.uris[0], QUEUE)
        return spend(target, [getter], [getter], seconds, limit=GET_BACKLOG)


def large(body_bytes: int, window: int) -> Measure:
    """Publish and consume large persistent bodies."""

    def measure(target: Target, seconds: float) -> Cost:
        with declared(target, one_queue):
            message = publish("", QUEUE, PERSISTENT, bytes(body_bytes))
            publisher = Publisher(target.uris[0], [message], 1, window)
            consumer = Consumer(target.uris[0], QUEUE, prefetch=2 * window)
            return spend(target, [consumer, publisher], [consumer], seconds)

    return measure


def fanout(target: Target, seconds: float) -> Cost:
    """Publish 64 KiB to fifty durable queues with consumers; a delivery counts."""
    queues = [f"bench-{number}" for number in range(FANOUT_QUEUES)]

    def declare(setup: Setup) -> None:
        for queue in queues:
            setup.queue(queue, durable=True)
            setup.bind(queue, "amq.fanout", "")

    with declared(target, declare):
        message = publish("amq.fanout", "", PERSISTENT, bytes(64 * KIB))
        publisher = Publisher(target.uris[0], [message], 1, 4)
        consumer = Consumer(target.uris[0], *queues, prefetch=0, no_ack=True)
        return spend(target, [consumer, publisher], [consumer], seconds)


ROUTING_LINES = (
    CostLine("topic", "topic exchange, 1,000 queues × 3 patterns, 10,000 keys, about 3 match", 6, topic),
    CostLine("headers", "headers exchange, 200 bindings", 12, headers(200)),
    CostLine("headers-1000", "headers exchange, 1,000 bindings", 12, headers(1000)),
    CostLine(
        "ttl",
        "TTL → dead letter, persistent, dead letters consumed",
        6,
        dead_letters(message_ttl=DEAD_LETTER_MS),
    ),
    CostLine(
        "max-length",
        "max-length → dead letter, persistent, dead letters consumed",
        6,
        dead_letters(max_length=LENGTH_MAX),
    ),
    CostLine("mandatory", "mandatory returns", 4, returns),
    CostLine("tx", f"transactions of {TRANSACTION_MESSAGES} persistent messages", 4, transactions),
    CostLine("get", f"basic.get and ack, one by one, backlog of {GET_BACKLOG:,}", 4, get, floor=True),
    CostLine("large-64k", "64 KiB persistent, published and consumed", 3, large(64 * KIB, 50)),
    CostLine("large-1m", "1 MiB persistent, published and consumed", 2.5, large(MIB, 5)),
    CostLine("large-fanout", "64 KiB fanout to 50 durable queues (per delivery)", 4, fanout),
)
