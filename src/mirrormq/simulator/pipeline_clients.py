"""Clients of the pipeline: producers with publish ids, and readers of ranges."""

from __future__ import annotations

from mirrormq.client.client_events import Confirm, Delivery, Event, MethodReply
from mirrormq.queues.publish_ids import PRODUCER_HEADER, PUBLISH_ID_HEADER
from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.simulator.run_history import ReadRecord, SentRecord
from mirrormq.simulator.workload import BURST, WINDOW, SimulatedClient, SimulatedPublisher, declarations
from mirrormq.wire import methods
from mirrormq.wire.fields import Table, table_of
from mirrormq.wire.properties import PERSISTENT, decode_properties

READ_BYTES = 1 << 20
MOVES = 0.05
"""Probability per step that a client of the pipeline disconnects."""


def numbered(queue: str) -> bool:
    """Return whether only producers with publish ids publish to a queue (i1). No client consumes from it
    before the end."""
    return queue[0] == "i"


class ProducerClient(SimulatedPublisher):
    """Publisher that numbers its messages. After a lost connection it publishes those again that are not
    confirmed, through any node, and the queue must keep each of them once."""

    _published = 0
    _open: dict[int, str] = {}
    """Unconfirmed messages by publish id, ascending."""

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        match event:
            case MethodReply(_, methods.ConfirmSelectOk()):
                for number in self._open:
                    self._send(number)
            case Confirm():
                self._open = {
                    number: body
                    for number, body in self._open.items()
                    if body not in self.hosts.history.confirmed
                }
                if not event.accepted:
                    self.hang_up()

    def act(self) -> None:
        if not self._ready or self.resting:
            return
        if self.choice.random() < MOVES:
            self.hang_up()
            return
        history = self.hosts.history
        for _ in range(self.choice.randint(0, min(BURST, WINDOW - len(self._open)))):
            self._published += 1
            body = f"{self.queue} {self.name} {self._published}"
            number, now = len(history.sent) + 1, self.hosts.timeline.now_ms
            history.sent[body] = SentRecord(self.name, number, self.queue, True, now)
            self._open = {**self._open, self._published: body}
            self._send(self._published)

    def _send(self, number: int) -> None:
        assert self.session is not None
        self._tag += 1
        self._under_way[self._tag] = body = self._open[number]
        headers = table_of({PRODUCER_HEADER: self.name, PUBLISH_ID_HEADER: number})
        self.session.publish(self.queue, body.encode(), PERSISTENT, headers=headers)


class RangeReader(SimulatedClient):
    """Reader that asks for the extent of a queue and then for its messages, from any node."""

    _extent: QueueExtent | None = None

    def begin(self) -> None:
        self._ready = self._pending = False
        self._extent = None
        self.queue = self.choice.choice(self.queues)
        assert self.session is not None
        self.session.send(
            *declarations(self.queue), methods.encode_basic_consume(range_protocol.REPLY_QUEUE, no_ack=True)
        )

    def waiting(self) -> bool:
        return not self._ready or self._pending

    def act(self) -> None:
        assert self.session is not None
        if not self._ready or self._pending or self.resting:
            return
        if self.choice.random() < MOVES:
            self.hang_up()
            return
        self._pending, extent = True, self._extent
        if extent is None or extent.first == extent.next:
            self._extent = None
            self.session.ask(range_protocol.extent(self.queue), b"")
        else:
            request = range_protocol.read(self.queue, extent.first, extent.next, READ_BYTES)
            self.session.ask(range_protocol.meant(request, extent.id), b"")

    def on_event(self, event: Event) -> None:
        if isinstance(event, MethodReply) and isinstance(event.method, methods.BasicConsumeOk):
            self._ready = True
        elif isinstance(event, Delivery):
            self._pending = False
            properties = decode_properties(event.properties, 0)
            if properties.type_ == range_protocol.OK:
                self._answered(properties.headers or {}, bytes(event.body))
            else:
                self._extent = None

    def _answered(self, headers: Table, body: bytes) -> None:
        if self._extent is None:
            self._extent = range_protocol.read_extent(headers)
            return
        queue_id, self._extent = self._extent.id, None
        now = self.hosts.timeline.now_ms
        self.hosts.history.read += [
            ReadRecord(self.queue, queue_id, row.sequence, row.body.decode(), self.node, now)
            for row in RangeBatch(body)
        ]
