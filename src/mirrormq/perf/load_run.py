"""Load run: open all connections, drive the roles, measure between two snapshots, clean up the broker.

The generator is one process on purpose. A broker is usually measured on two cores, where a second generator
process takes its time from the broker, and one process never needs a whole core.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from itertools import cycle

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.client_io.client_socket import ClientError
from mirrormq.perf.histogram import Histogram
from mirrormq.perf.load_connection import LoadConnection, room_for
from mirrormq.perf.perf_options import PerfError, PerfOptions, parse_uri
from mirrormq.perf.perf_report import PerfReport
from mirrormq.perf.publish_frames import build_run
from mirrormq.perf.roles import EchoConsumer, LoadConsumer, LoadProducer
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame

TICK_S = 0.05
"""Longest sleep of the loop: deadlines and heartbeats are checked at least this often."""
RATE_TICK_S = 0.001
"""Longest sleep of the loop at a fixed rate: messages leave at most this late."""
PROGRESS_INTERVAL_S = 0.5

Progress = Callable[[float, int, int], None]
"""Callback with the fraction done (0 to 1) and the published and consumed counts so far."""


class LoadRun:
    """Run on one set of brokers."""

    def __init__(self, options: PerfOptions, progress: Progress | None = None) -> None:
        options.check()
        self.options = options
        self._progress = progress
        self._uris: cycle[AmqpUri] = cycle([parse_uri(uri) for uri in options.uris])
        consuming = options.consume_uris or options.uris
        self._consuming: cycle[AmqpUri] = cycle([parse_uri(uri) for uri in consuming])
        self._producers: list[LoadProducer] = []
        self._consumers: list[LoadConsumer] = []
        self._echoes: list[EchoConsumer] = []
        self._selector = selectors.DefaultSelector()
        self._writing: set[int] = set()
        self._blocked_s = 0.0

    def run(self) -> PerfReport:
        """Run and measure; raises PerfError with one sentence on failure."""
        try:
            return self._run()
        except ClientError as error:
            raise PerfError(str(error)) from None

    def _run(self) -> PerfReport:
        control = self._dial()
        try:
            self._prepare(control)
            try:
                self._dial_roles()
                return self._measure()
            finally:
                self._close_roles()
                if self.options.mode == "both" and not self.options.keep:
                    for queue in self.options.queue_names:
                        control.call(methods.encode_queue_delete(queue))
        finally:
            control.close()
            self._selector.close()

    def _dial(self, uri: AmqpUri | None = None) -> BlockingClient:
        """Connect to the next broker in turn, with the broker's heartbeat interval."""
        uri = uri or next(self._uris)
        options = ClientOptions.of_uri(uri, "mirrormq perf", heartbeat_s=0)
        return BlockingClient(uri, options, self.options.timeout)

    def _prepare(self, control: BlockingClient) -> None:
        """Declare the exchange, the queue and the binding of the run."""
        options = self.options
        if options.exchange:
            declare = methods.encode_exchange_declare(
                options.exchange, options.exchange_type, durable=options.durable
            )
            control.call(declare)
        if options.mode == "latency":
            return
        self._declare(control, options.share(0, len(options.uris)))
        for index in range(1, min(len(options.uris), options.queues)):
            client = self._dial(parse_uri(options.uris[index]))
            self._declare(client, options.share(index, len(options.uris)))
            client.close()

    def _declare(self, client: BlockingClient, queues: list[str]) -> None:
        """Declare queues, through the node that becomes their master if there are several nodes."""
        options = self.options
        for queue in queues:
            passive = options.mode == "consume"
            client.declare_queue(queue, durable=options.durable, passive=passive, kind=options.queue_type)
            if options.purge:
                client.call(methods.encode_queue_purge(queue))
            self._bind(client, queue)

    def _bind(self, client: BlockingClient, queue: str) -> None:
        if self.options.exchange and self.options.mode != "consume":
            bind = methods.encode_queue_bind(queue, self.options.exchange, queue)
            client.call(bind)

    def _dial_roles(self) -> None:
        options = self.options
        if options.consumes:
            for index in range(options.consumers):
                self._consumers.append(self._consumer(index))
        if options.publishes:
            for index in range(options.producers):
                self._producers.append(self._producer(index))
        if options.mode == "latency":
            for index in range(options.connections):
                self._echoes.append(self._echo(index))
        for role in self._roles():
            self._selector.register(role.link.socket, selectors.EVENT_READ, role)

    def _opening(self, *queues: str) -> bytes:
        no_ack = self.options.auto_ack
        return b"".join(
            method_frame(1, methods.encode_basic_consume(queue, tag, no_ack=no_ack, nowait=True))
            for queue, tag in zip(queues, [f"perf-{n:04}" for n in range(len(queues))], strict=True)
        )

    def _consumer(self, index: int) -> LoadConsumer:
        options = self.options
        client = self._dial(next(self._consuming))
        if options.prefetch and not options.auto_ack:
            client.call(methods.encode_basic_qos(prefetch_count=options.prefetch))
        opening = self._opening(*options.share(index, options.consumers))
        return LoadConsumer(_link(client, options.largest_bytes), options, opening)

    def _producer(self, index: int) -> LoadProducer:
        options = self.options
        client = self._dial()
        if options.confirm_window:
            client.call(methods.encode_confirm_select())
        runs = [
            build_run(
                options.exchange,
                queue,
                options.size,
                persistent=options.persistent,
                frame_max=client.frame_max,
                batch=options.batch,
                vary=options.vary,
            )
            for queue in options.share(index, options.producers)
        ]
        barrier = methods.encode_queue_declare(options.queue_names[0], passive=True)
        share, extra = divmod(options.messages, options.producers)
        limit = share + (index < extra) if options.messages else 0
        return LoadProducer(_link(client, options.largest_bytes), runs, options, limit, barrier)

    def _echo(self, index: int) -> EchoConsumer:
        options = self.options
        client = self._dial()
        queue = f"{options.queue}-{os.getpid()}-{index}"
        client.declare_queue(queue, durable=options.durable, exclusive=True)
        self._bind(client, queue)
        run = build_run(
            options.exchange,
            queue,
            options.size,
            persistent=options.persistent,
            frame_max=client.frame_max,
            batch=1,
        )
        return EchoConsumer(_link(client, options.size, one=True), run, options, self._opening(queue))

    def _roles(self) -> list[LoadProducer | LoadConsumer]:
        return [*self._consumers, *self._producers, *self._echoes]

    def _measure(self) -> PerfReport:
        """Warm up, measure, settle. A publish run is measured as a whole: from empty sockets to the broker's
        reply."""
        options = self.options
        roles = self._roles()
        warmup_s = 0.0 if options.messages or options.mode == "publish" else options.warmup
        begin = time.monotonic()
        interrupted = False
        before, cpu_before, started = self._counts(), time.process_time(), begin
        try:
            if warmup_s:
                self._loop(roles, begin + warmup_s, begin, warmup_s + options.duration)
            before, cpu_before, started = self._counts(), time.process_time(), time.monotonic()
            self._blocked_s = 0.0
            for producer in self._producers:
                producer.longest_gap_ns = 0
            for histogram in (*self._deliver_latencies(), *self._confirm_latencies()):
                histogram.clear()
            end = float("inf") if options.messages else started + options.duration
            self._loop(roles, end, begin, warmup_s + options.duration)
        except KeyboardInterrupt:
            interrupted = True
        if options.mode == "publish" and not interrupted:
            self._settle(roles)
        seconds = time.monotonic() - started
        cpu_s = time.process_time() - cpu_before
        return self._report(before, seconds, cpu_s)

    def _loop(
        self, roles: list[LoadProducer | LoadConsumer], end: float, begin: float, whole_s: float
    ) -> None:
        tick_s = RATE_TICK_S if self.options.rate else TICK_S
        next_look = next_progress = 0.0
        while not self._finished():
            now = time.monotonic()
            if now >= end:
                return
            if now >= next_look:
                self._run_timers(roles, now, tick_s)
                next_look = now + tick_s
            if now >= next_progress:
                self._show((now - begin) / whole_s)
                next_progress = now + PROGRESS_INTERVAL_S
            self._step(min(tick_s, end - now))

    def _step(self, timeout_s: float) -> None:
        """Serve the ready sockets once."""
        for key, events in self._selector.select(timeout_s):
            role = key.data
            if events & selectors.EVENT_READ:
                role.readable(time.monotonic_ns())
                while role.link.secure and role.link.has_unread:
                    role.readable(time.monotonic_ns())
            role.pump(time.monotonic_ns())
            self._update_interest(role)

    def _run_timers(self, roles: list[LoadProducer | LoadConsumer], now: float, elapsed_s: float) -> None:
        """Do the work without a socket event: first sends, rates, heartbeats, the time spent blocked."""
        now_ns = time.monotonic_ns()
        for role in roles:
            role.pump(now_ns)
            role.link.beat(now)
            self._update_interest(role)
        if any(role.link.blocked for role in roles if not role.reads_only):
            self._blocked_s += elapsed_s

    def _update_interest(self, role: LoadProducer | LoadConsumer) -> None:
        """Watch a socket for writing only while its role has output."""
        number = role.link.socket.fileno()
        wants = role.wants_write
        if wants != (number in self._writing):
            self._writing.symmetric_difference_update((number,))
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants else 0)
            self._selector.modify(role.link.socket, events, role)

    def _finished(self) -> bool:
        """Whether a run with a fixed number of messages is complete."""
        wanted = self.options.messages
        if not wanted:
            return False
        if self.options.mode == "publish":
            return all(producer.settled for producer in self._producers)
        return sum(role.consumed_count for role in (*self._consumers, *self._echoes)) >= wanted

    def _settle(self, roles: list[LoadProducer | LoadConsumer]) -> None:
        """Stop publishing and wait until the broker has received everything."""
        deadline = time.monotonic() + self.options.timeout
        for producer in self._producers:
            producer.stopped = True
        while not all(producer.settled for producer in self._producers):
            now = time.monotonic()
            if now > deadline:
                raise PerfError(
                    f"the broker did not accept all published messages within {self.options.timeout:g} s"
                )
            self._run_timers(roles, now, 0.0)
            self._step(TICK_S)

    def _show(self, part: float) -> None:
        if self._progress is None:
            return
        published, _confirmed, consumed = self._counts()[:3]
        if self.options.messages:
            done = published if self.options.mode == "publish" else consumed
            part = done / self.options.messages
        self._progress(min(part, 1.0), published, consumed)

    def _counts(self) -> tuple[int, int, int, int, int]:
        producers, readers = self._producers, (*self._consumers, *self._echoes)
        return (
            sum(role.published_count for role in producers) + sum(e.published_count for e in self._echoes),
            sum(role.confirmed_count for role in producers),
            sum(role.consumed_count for role in readers),
            sum(role.rejected_count for role in producers),
            sum(role.link.returned_count for role in producers),
        )

    def _deliver_latencies(self) -> list[Histogram]:
        return [role.latency for role in (*self._consumers, *self._echoes)]

    def _confirm_latencies(self) -> list[Histogram]:
        return [role.confirm_latency for role in self._producers]

    def _report(self, before: tuple[int, ...], seconds: float, cpu_s: float) -> PerfReport:
        published, confirmed, consumed, rejected, returned = (
            after - start for after, start in zip(self._counts(), before, strict=True)
        )
        return PerfReport(
            mode=self.options.mode,
            seconds=round(seconds, 4),
            published=published,
            confirmed=confirmed,
            consumed=consumed,
            rejected=rejected,
            returned=returned,
            blocked_seconds=round(self._blocked_s, 2),
            generator_cpu_percent=round(100 * cpu_s / seconds, 1) if seconds else 0.0,
            longest_confirm_gap_ms=round(
                max((p.longest_gap_ns for p in self._producers), default=0) / 1e6, 1
            ),
            confirm_latency_ms=_summary(self._confirm_latencies()),
            deliver_latency_ms=_summary(self._deliver_latencies()),
        )

    def _close_roles(self) -> None:
        for producer in self._producers:
            producer.stopped = True
        for role in self._roles():
            if (
                isinstance(role, LoadConsumer)
                and not isinstance(role, EchoConsumer)
                and self.options.mode == "consume"
            ):
                role.finish()
            role.link.begin_close()
        for role in self._roles():
            role.link.close()


def _link(client: BlockingClient, body_bytes: int, *, one: bool = False) -> LoadConnection:
    """Turn the socket of a client into a non-blocking LoadConnection."""
    return LoadConnection(client.socket, client.connection, client.channel, room_for(body_bytes, one=one))


def _summary(histograms: list[Histogram]) -> dict[str, float]:
    together = Histogram()
    for histogram in histograms:
        together.merge(histogram)
    return together.summary_ms() if together.total else {}


def run(options: PerfOptions, progress: Progress | None = None) -> PerfReport:
    """Run once and return the report."""
    return LoadRun(options, progress).run()
