"""What a connection is there for: to publish, to consume, or to send one message to itself and wait.

Each role has the same three handles for the loop: `readable` when bytes came, `pump` when there may
be something to send, `wants_write` when it waits for the socket rather than for the broker.
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
"""A producer refills its confirm window when this part of it is free, so that sends stay batches."""


class LoadProducer:
    """Publishes as fast as the confirm window, the rate and the broker allow."""

    reads_only = False

    def __init__(
        self, link: LoadConnection, runs: list[PublishRun], options: PerfOptions, limit: int, barrier: bytes
    ) -> None:
        self.link = link
        self.run = runs[0]
        self._runs = cycle(runs)
        """One for each queue; they take turns."""
        self.window = options.confirm_window
        self.refill = min(options.batch or max(1, self.window // REFILL_PART), self.run.count)
        self.rate = options.rate
        self.limit = limit
        """How many messages to publish; 0 = until stopped."""
        self.published_count = self.confirmed_count = self.rejected_count = 0
        self.confirm_latency = Histogram()
        self.longest_gap_ns = 0
        """The longest time between two confirms while some were outstanding."""
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
        """Whether the socket, and nothing else, keeps it from sending."""
        return self.link.clogged or self._more

    def pump(self, now_ns: int) -> None:
        """Send what may be sent now."""
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
        """The broker has everything when it confirmed it all, or answered a later question on the channel."""
        if self.window:
            self.settled = self.confirmed_count + self.rejected_count >= self.published_count
        elif not self._barrier_sent:
            self._barrier_sent = True
            self.link.channel.request(self._barrier)
            self.link.send(self.link.connection.take_output())

    def readable(self, now_ns: int) -> None:
        """Read confirms, most of them back to back."""
        link = self.link
        link.receive()
        while link.end - link.start >= ACK_SIZE_BYTES:
            if not self._take_confirms(now_ns) and not self._odd():
                break
        while self._odd():
            pass
        if self.stopped and not link.clogged:
            self._settle()

    def _take_confirms(self, now_ns: int) -> bool:
        """Take the acks and nacks at the front of the buffer; False when there is none."""
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

    def _odd(self) -> bool:
        """Take one frame that is not a confirm; False when there is no whole one."""
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
    """Counts deliveries and acknowledges every n-th with all before it."""

    reads_only = True

    def __init__(self, link: LoadConnection, options: PerfOptions, opening: bytes) -> None:
        self.link = link
        self._opening = opening
        """The basic.consume, sent when the clock runs, because a backlog comes back at once."""
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
        """Start consuming, then go on with acks the socket did not take."""
        if self._opening:
            self.link.send(self._opening)
            self._opening = b""
        if self.link.clogged:
            self.link.flush()

    def readable(self, now_ns: int) -> None:
        """Count what came, by stride where the layout holds."""
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
        """Sizes differ: go from delivery to delivery, and over whatever stands between them."""
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
        """Everything up to `last_tag` has come: acknowledge each full group."""
        every = self.ack_every
        if every and last_tag - self._acked >= every:
            acks = [ack_frame(1, tag, True) for tag in range(self._acked + every, last_tag + 1, every)]
            self._acked += every * len(acks)
            self.link.send(b"".join(acks))

    def finish(self) -> None:
        """Acknowledge the rest, so that the last incomplete group does not return to the queue."""
        if self.ack_every and self.consumed_count > self._acked:
            self._acked = self.consumed_count
            self.link.send(ack_frame(1, self._acked, True))

    def _learn(self) -> bool:
        """The front of the buffer has no known shape; False when more bytes are needed."""
        link = self.link
        if link.end - link.start < 11:
            return link.buffer[link.start] != METHOD and link.take_frame() is not None
        if link.buffer[link.start] == METHOD and link.buffer[link.start + 7 : link.start + 11] == DELIVER:
            self._layout = Layout.learn(link.buffer, link.start, link.end)
            return self._layout is not None
        return link.take_frame() is not None


class EchoConsumer(LoadConsumer):
    """Publishes one message to its own queue, waits for it, acknowledges it, publishes the next."""

    reads_only = False

    def __init__(self, link: LoadConnection, run: PublishRun, options: PerfOptions, opening: bytes) -> None:
        super().__init__(link, options, opening)
        if run.count != 1:
            raise PerfError("an echo has one message in flight")
        self.run = run
        self.stopped = False
        self.published_count = 0
        self._interval_ns = int(1e9 / options.rate) if options.rate else 0
        self._next_ns = 0
        self._in_flight = False

    def pump(self, now_ns: int) -> None:
        """Publish when nothing is in flight and the rate allows it."""
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
        """The message came back: acknowledge it and, in one send, publish the next."""
        ack = ack_frame(1, last_tag, False) if self.ack_every else b""
        self._in_flight = False
        if self.stopped or self.link.blocked or self._interval_ns:
            if ack:
                self.link.send(ack)
            self.pump(now_ns)
        else:
            self._publish(ack, now_ns)
