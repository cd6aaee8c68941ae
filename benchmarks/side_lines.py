"""Lines of the single-node benchmark beside the message path: declarations, pauses, memory."""

from __future__ import annotations

import time

from benchmarks.brokers import Broker
from benchmarks.cost_lines import CHUNK, PERSISTENT, QUEUE, TRANSIENT, WINDOW, chunked, rpc_links
from benchmarks.costs import Setup, declared, spend
from benchmarks.lines import Line
from benchmarks.process_stats import resident_bytes
from benchmarks.raw_links import Consumer, Publisher, RawLink, Requester, publish
from mirrormq.wire import methods

DECLARING_CLIENTS = 4
BINDINGS, BOUND_QUEUES = 20_000, 100
QUEUES = 10_000
EXPIRING = 20_000
EXPIRY_MS = 4000
IDLE_S = 1.0
MIB = 1 << 20


def _declare_rate(broker: Broker, payloads: list[bytes]) -> float:
    links = [
        Requester(broker.uris[0], payloads[number::DECLARING_CLIENTS]) for number in range(DECLARING_CLIENTS)
    ]
    cost = spend(broker, links, links, float("inf"), limit=len(payloads))
    return cost.rate


def bindings(broker: Broker, seconds: float) -> float:
    """Bind 20,000 routing keys to 100 durable queues, four clients, each waiting for every reply."""

    def declare(setup: Setup) -> None:
        setup.exchange("bench-exchange", "topic", durable=True)
        for number in range(BOUND_QUEUES):
            setup.queue(f"bench-{number}", durable=True)

    with declared(broker, declare):
        return _declare_rate(
            broker,
            [
                methods.encode_queue_bind(f"bench-{n % BOUND_QUEUES}", "bench-exchange", f"key.{n}.*")
                for n in range(BINDINGS)
            ],
        )


def queues(broker: Broker, seconds: float) -> float:
    """Declare 10,000 durable queues, four clients, each waiting for every reply."""
    names = [f"bench-{number}" for number in range(QUEUES)]
    try:
        return _declare_rate(broker, [methods.encode_queue_declare(name, durable=True) for name in names])
    finally:
        _delete(broker, names)


def _delete(broker: Broker, names: list[str]) -> None:
    links = [
        Requester(
            broker.uris[0], [methods.encode_queue_delete(name) for name in names[part::DECLARING_CLIENTS]]
        )
        for part in range(DECLARING_CLIENTS)
    ]
    spend(broker, links, links, float("inf"), limit=len(names))


class Echo(Consumer):
    """Client that publishes to its own queue and waits for the message; keeps the times."""

    def __init__(self, uri: str, queue: str) -> None:
        super().__init__(uri, queue, prefetch=0, no_ack=True)
        self._message = publish("", queue, TRANSIENT, b"x" * 100)
        self._sent_s = 0.0
        self.longest_s = 0.0

    def begin(self) -> None:
        super().begin()
        self._publish()
        self.flush()

    def _publish(self) -> None:
        self._sent_s = time.perf_counter()
        self.out.append(self._message)

    def delivered(self, tag: int, body: bytes) -> None:
        self.count += 1
        self.longest_s = max(self.longest_s, self.waits_s)
        self._publish()

    @property
    def waits_s(self) -> float:
        """Time since the last publish."""
        return time.perf_counter() - self._sent_s


def expiry(broker: Broker, seconds: float) -> float:
    """Let 20,000 messages expire at once and become dead letters; return another client's longest wait in ms.

    The first message lives for seconds and those behind it for a millisecond. RabbitMQ and MirrorMQ expire
    messages at the head of a queue only.
    """

    def declare(setup: Setup) -> None:
        setup.queue("bench-echo")
        setup.queue("bench-target", durable=True)
        setup.queue(QUEUE, durable=True, dead_letter_exchange="", dead_letter_routing_key="bench-target")

    with declared(broker, declare):
        long_lived = PERSISTENT._replace(expiration=str(EXPIRY_MS))
        short_lived = PERSISTENT._replace(expiration="1")
        first = publish("", QUEUE, long_lived, b"x" * 100)
        others = [publish("", QUEUE, short_lived, b"x" * 100)] * CHUNK
        head = Publisher(broker.uris[0], [first], 1, 1)
        head.limit = 1
        spend(broker, [head], [head], float("inf"), limit=1)
        filler = Publisher(broker.uris[0], chunked(others, CHUNK), CHUNK, WINDOW)
        filler.limit = EXPIRING
        spend(broker, [filler], [filler], float("inf"), limit=EXPIRING)
        echo, taker = (
            Echo(broker.uris[0], "bench-echo"),
            Consumer(broker.uris[0], "bench-target", prefetch=200),
        )
        spend(broker, [echo, taker], [taker], float("inf"), limit=EXPIRING + 1)
        return echo.longest_s * 1000


def rpc_beside_bodies(broker: Broker, seconds: float) -> float:
    """Ask and reply one at a time beside a flow of 1 MiB bodies; return the 99th percentile in ms."""

    def declare(setup: Setup) -> None:
        setup.queue(QUEUE)
        setup.queue("bench-bodies")

    with declared(broker, declare):
        servers, clients = rpc_links(broker.uris[0], 4, 2)
        body = publish("", "bench-bodies", TRANSIENT, bytes(MIB))
        flow: list[RawLink] = [
            Consumer(broker.uris[0], "bench-bodies", prefetch=10),
            Publisher(broker.uris[0], [body], 1, 5),
        ]
        spend(broker, [*servers, *clients, *flow], clients, seconds)
        times_s = sorted(latency_s for client in clients for latency_s in client.latencies_s)
        return times_s[len(times_s) * 99 // 100] * 1000


def idle_memory(broker: Broker, seconds: float) -> float:
    """Start a fresh node and return its resident memory in MB after a client has come and gone."""
    fresh = type(broker)()
    try:
        fresh.start()
        time.sleep(IDLE_S)
        return resident_bytes(fresh.pids) / 1e6
    finally:
        fresh.stop()


SIDE_LINES = (
    Line(
        "bindings", f"{BINDINGS:,} bindings declared one by one, four clients", "1/s", 5, bindings, rounds=1
    ),
    Line(
        "queues", f"{QUEUES:,} durable queues declared one by one, four clients", "1/s", 5, queues, rounds=1
    ),
    Line(
        "expiry",
        f"{EXPIRING:,} messages expire together into dead letters: longest wait of another client",
        "ms",
        None,
        expiry,
        lower_is_better=True,
        at_most=50,
        rounds=3,
    ),
    Line(
        "rpc-beside",
        "RPC beside a flow of 1 MiB bodies, p99",
        "ms",
        1,
        rpc_beside_bodies,
        lower_is_better=True,
    ),
    Line(
        "memory",
        "resident memory of an idle node",
        "MB",
        None,
        idle_memory,
        lower_is_better=True,
        at_most=50,
        rounds=1,
    ),
)
