"""Roles of a connection: publish, consume, or send one message to itself and wait for it.

Each role offers the same three members to the loop. The loop calls `readable` when bytes arrived, and `pump`
when there may be output. `wants_write` is true while the role waits for the socket rather than for the
broker.
"""

from __future__ import annotations

from collections import deque
from itertools import cycle

from mirrormq.client.client_events import MethodReply
from mirrormq.client.publisher_confirms import ConfirmCounter
from mirrormq.perf.histogram import Histogram
from mirrormq.perf.load_connection import LoadConnection
from mirrormq.perf.perf_options import PerfError, PerfOptions
from mirrormq.perf.publish_frames import (
    ACK,
    ACK_FRAME,
    ACK_SIZE_BYTES,
    DELIVER,
    NACK,
    Layout,
    PublishRun,
    ack_frame,
    walk,
)
from mirrormq.wire.frames import METHOD

SENDS_PER_PUMP = 4
"""Runs sent before other connections get their turn."""

REFILL_PART = 10
"""Divisor of the confirm window: a producer refills when this fraction of it is free, which keeps sends
batched."""


class LoadProducer:
    """Producer that publishes as fast as the confirm window, the rate and the broker allow."""

    reads_only = False

    def __init__(
        self, link: LoadConnection, runs: list[PublishRun], options: PerfOptions, limit: int, barrier: bytes
    ) -> None:
        self.link = link
        self.run = runs[0]
        self._runs = cycle(runs)
        """Prebuilt runs, one per queue, used in turn."""
        self.window = options.confirm_window
        self.refill = min(options.batch or max(1, self.window // REFILL_PART), self.run.count)
        self.rate = options.rate
        self.limit = limit
        """Messages to publish; 0 = until stopped."""
        self.published_count = self.confirmed_count = self.rejected_count = 0
        self.confirm_latency = Histogram()
        self.longest_gap_ns = 0
        """Longest time between two confirms while messages were unconfirmed."""
        self._waits_since_ns = 0
        self.settled = False
        self.stopped = False
        self._more = False
        self._barrier = barrier
        self._barrier_sent = False
        self._started_ns = 0
        self._confirms = ConfirmCounter()
        self._marks: deque[tuple[int, int]] = deque()

    @property
    def wants_write(self) -> bool:
        """Whether only the socket keeps the producer from sending."""
        return self.link.clogged or self._more

    def pump(self, now_ns: int) -> None:
        """Send what window, rate and socket allow."""
        if self.link.clogged:
            self.link.flush()
        if not self._started_ns:
            self._started_ns = now_ns
        self._more = True
        for _ in range(SENDS_PER_PUMP):
            count = 0 if self.link.clogged or self.stopped else self._allowed(now_ns)
            if count <= 0:
                self._more = False
                break
            self.run = next(self._runs)
            self.link.send(self.run.slice(count, now_ns))
            self.published_count += count
            if self.window:
                if not self._marks:
                    self._waits_since_ns = now_ns
                self._marks.append((self.published_count, now_ns))
            if self.limit and self.published_count >= self.limit:
                self.stopped = True
        if self.stopped and not self.link.clogged:
            self._settle()

    def _allowed(self, now_ns: int) -> int:
        if self.link.blocked:
            return 0
        count = self.run.count
        if self.limit:
            count = min(count, self.limit - self.published_count)
        if self.window:
            free = self.window - (self.published_count - self.confirmed_count - self.rejected_count)
            if free < self.refill and free < count:
                return 0
            count = min(count, free)
        if self.rate:
            due = int((now_ns - self._started_ns) * self.rate / 1e9) + 1
            count = min(count, due - self.published_count)
        return count

    def _settle(self) -> None:
        """Check whether the broker has everything: it confirmed all, or replied to a later request on the
        channel."""
        if self.window:
            self.settled = self.confirmed_count + self.rejected_count >= self.published_count
        elif not self._barrier_sent:
            self._barrier_sent = True
            self.link.channel.request(self._barrier)
            self.link.send(self.link.connection.take_output())

    def readable(self, now_ns: int) -> None:
        """Read confirms, most of them consecutive."""
        link = self.link
        link.receive()
        while link.end - link.start >= ACK_SIZE_BYTES:
            if not self._take_confirms(now_ns) and not self._take_other():
                break
        while self._take_other():
            pass
        if self.stopped and not link.clogged:
            self._settle()

    def _take_confirms(self, now_ns: int) -> bool:
        """Decode the acks and nacks at the front of the buffer; return False without any."""
        link = self.link
        stop = link.start + (link.end - link.start) // ACK_SIZE_BYTES * ACK_SIZE_BYTES
        taken = 0
        settle = self._confirms.settle
        for kind, _channel, _size, method, tag, flags, _end in ACK_FRAME.iter_unpack(
            link.buffer[link.start : stop]
        ):
            if kind != METHOD or (method != ACK and method != NACK):
                break
            count = settle(tag, flags & 1 == 1)
            if method == NACK:
                self.rejected_count += count
            else:
                self.confirmed_count += count
            taken += 1
        link.start += taken * ACK_SIZE_BYTES
        marks = self._marks
        while marks and marks[0][0] <= self._confirms.floor:
            self.confirm_latency.add(now_ns - marks.popleft()[1])
        if taken:
            self.longest_gap_ns = max(self.longest_gap_ns, now_ns - self._waits_since_ns)
            self._waits_since_ns = now_ns
        return taken > 0

    def _take_other(self) -> bool:
        """Handle one frame that is not a confirm; return False if it is incomplete."""
        link = self.link
        if link.end - link.start >= ACK_SIZE_BYTES and link.buffer[link.start + 7 : link.start + 11] == ACK:
            return False
        events = link.take_frame()
        if events is None:
            return False
        if any(isinstance(event, MethodReply) for event in events):
            self.settled = True
        return True


class LoadConsumer:
    """Consumer that counts deliveries and acknowledges every n-th with all before it."""

    reads_only = True

    def __init__(self, link: LoadConnection, options: PerfOptions, opening: bytes) -> None:
        self.link = link
        self._opening = opening
        """Encoded basic.consume, sent when the measurement starts, because a backlog is delivered at once."""
        self.ack_every = 0 if options.auto_ack else options.ack_every
        self._vary = options.vary
        self.consumed_count = 0
        self.latency = Histogram()
        self._layout: Layout | None = None
        self._acked = 0

    @property
    def wants_write(self) -> bool:
        """Whether acks wait for the socket."""
        return self.link.clogged

    def pump(self, now_ns: int) -> None:
        """Start consuming, then send acks that the socket did not accept."""
        if self._opening:
            self.link.send(self._opening)
            self._opening = b""
        if self.link.clogged:
            self.link.flush()

    def readable(self, now_ns: int) -> None:
        """Count deliveries, by stride where the layout holds."""
        link = self.link
        link.receive()
        if self._vary:
            self._walk(now_ns)
            return
        while link.start < link.end:
            layout = self._layout
            count = layout.count(link.buffer, link.start, link.end) if layout else 0
            if layout and count:
                self._take(layout, count, now_ns)
            elif not self._learn():
                break

    def _walk(self, now_ns: int) -> None:
        """Count deliveries of different sizes one by one, and handle other frames between them."""
        link = self.link
        while True:
            count, link.start, last_tag, stamps = walk(link.buffer, link.start, link.end)
            if count:
                self.consumed_count += count
                for stamp in stamps:
                    self.latency.add(now_ns - stamp)
                self.delivered(last_tag, now_ns)
            if link.end - link.start >= 11 and link.buffer[link.start + 7 : link.start + 11] == DELIVER:
                return
            if link.take_frame() is None:
                return

    def _take(self, layout: Layout, count: int, now_ns: int) -> None:
        link = self.link
        for stamp in layout.stamps(link.buffer, link.start, count):
            self.latency.add(now_ns - stamp)
        last_tag = layout.tag(link.buffer, link.start + (count - 1) * layout.stride)
        link.start += count * layout.stride
        self.consumed_count += count
        self.delivered(last_tag, now_ns)

    def delivered(self, last_tag: int, now_ns: int) -> None:
        """Acknowledge each complete group up to `last_tag`."""
        every = self.ack_every
        if every and last_tag - self._acked >= every:
            acks = [ack_frame(1, tag, True) for tag in range(self._acked + every, last_tag + 1, every)]
            self._acked += every * len(acks)
            self.link.send(b"".join(acks))

    def finish(self) -> None:
        """Acknowledge the rest: the last incomplete group must not return to the queue."""
        if self.ack_every and self.consumed_count > self._acked:
            self._acked = self.consumed_count
            self.link.send(ack_frame(1, self._acked, True))

    def _learn(self) -> bool:
        """Learn the layout at the front of the buffer; return False when more bytes are needed."""
        link = self.link
        if link.end - link.start < 11:
            return link.buffer[link.start] != METHOD and link.take_frame() is not None
        if link.buffer[link.start] == METHOD and link.buffer[link.start + 7 : link.start + 11] == DELIVER:
            self._layout = Layout.learn(link.buffer, link.start, link.end)
            return self._layout is not None
        return link.take_frame() is not None


class EchoConsumer(LoadConsumer):
    """Publisher and consumer of its own queue: publishes a message, waits for it, acknowledges it, publishes
    the next."""

    reads_only = False

    def __init__(self, link: LoadConnection, run: PublishRun, options: PerfOptions, opening: bytes) -> None:
        super().__init__(link, options, opening)
        if run.count != 1:
            raise PerfError("an echo connection needs a run of one message")
        self.run = run
        self.stopped = False
        self.published_count = 0
        self._interval_ns = int(1e9 / options.rate) if options.rate else 0
        self._next_ns = 0
        self._in_flight = False

    def pump(self, now_ns: int) -> None:
        """Publish when no message is in flight and the rate allows it."""
        super().pump(now_ns)
        if self._in_flight or self.stopped or self.link.blocked or self.link.clogged:
            return
        if self._interval_ns:
            if now_ns < self._next_ns:
                return
            self._next_ns = max(self._next_ns + self._interval_ns, now_ns)
        self._publish(b"", now_ns)

    def _publish(self, before: bytes, now_ns: int) -> None:
        self._in_flight = True
        self.published_count += 1
        self.link.send(before + bytes(self.run.slice(1, now_ns)))

    def delivered(self, last_tag: int, now_ns: int) -> None:
        """Acknowledge the returned message and publish the next in one send."""
        ack = ack_frame(1, last_tag, False) if self.ack_every else b""
        self._in_flight = False
        if self.stopped or self.link.blocked or self._interval_ns:
            if ack:
                self.link.send(ack)
            self.pump(now_ns)
        else:
            self._publish(ack, now_ns)
