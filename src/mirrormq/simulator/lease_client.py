"""Client that works with a lease, as a Spark query does: take, read, settle, with retries after failures.

The broker must return the messages of a take again under its number, no matter which nodes fail, until the
client has settled them. The client remembers its position across connections, and finishes one number
before it starts the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from mirrormq.client.client_events import Delivery, Event, MethodReply
from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import BatchRow, RangeBatch
from mirrormq.ranges.range_protocol import TakenSpans
from mirrormq.sequences.spans import digest
from mirrormq.simulator.run_history import AcknowledgedRecord, DeliveredRecord, LeasedRecord
from mirrormq.simulator.workload import SimulatedClient, declarations
from mirrormq.wire import methods
from mirrormq.wire.fields import Table
from mirrormq.wire.properties import decode_properties

TAKE_MESSAGES = 6
READ_BYTES = 1 << 20
RELEASED, ASKED_AGAIN, HUNG_UP = 0.1, 0.3, 0.2
NOT_FOUND = 404


class LeaseStep(Enum):
    """Next request of the client."""

    TAKE = "take"
    READ = "read"
    SETTLE = "settle"
    RELEASE = "release"


class LeaseClient(SimulatedClient):
    """Lease client that processes one queue, a take at a time."""

    _number = 1
    _step = LeaseStep.TAKE
    _taken = TakenSpans(0, 0, 0, 0, 0)
    _spans = b""
    _rows: Sequence[BatchRow] = ()
    _bodies: tuple[str, ...] = ()
    _tried = False
    """Whether this number was requested before. The lease may then hold messages although no reply
    arrived."""
    _ending = _returning = False

    def begin(self) -> None:
        self._ready = self._pending = False
        if self._step is LeaseStep.READ:
            self._step = LeaseStep.TAKE
        self.queue = self.queues[0]
        assert self.session is not None
        self.session.send(
            *declarations(self.queue), methods.encode_basic_consume(range_protocol.REPLY_QUEUE, no_ack=True)
        )

    def waiting(self) -> bool:
        return not self._ready or self._pending

    def rest(self) -> None:
        """Stop soon: once the messages that the client holds are settled."""
        self._ending = True

    def give_back(self) -> None:
        """Release the lease after all faults are healed. It may hold messages of another side whose reply was
        lost."""
        self._returning, self.resting = True, False

    def act(self) -> None:
        assert self.session is not None
        if not self._ready or self._pending:
            return
        if self._ending and self._step is LeaseStep.TAKE and not self._tried:
            if not self._returning:
                self.resting = True
                self.hang_up()
                return
            self._returning, self._step = False, LeaseStep.RELEASE
        if not self._ending and self.choice.random() < HUNG_UP:
            self.hang_up()
        else:
            self._pending = True
            self._send_request()

    def _send_request(self) -> None:
        assert self.session is not None
        body = b""
        match self._step:
            case LeaseStep.TAKE:
                self._tried = True
                request = range_protocol.take(self.queue, self.name, self._number, TAKE_MESSAGES)
            case LeaseStep.READ:
                body = self._spans
                request = range_protocol.read(self.queue, self._taken.from_, self._taken.to, READ_BYTES)
            case LeaseStep.SETTLE:
                for acknowledged in self._bodies:
                    now = self.hosts.timeline.now_ms
                    record = AcknowledgedRecord(acknowledged, self.node, now)
                    self.hosts.history.acknowledged[acknowledged] = record
                request = range_protocol.settle(
                    self.queue, self.name, number=self._number, digest=digest([self._spans])
                )
            case LeaseStep.RELEASE:
                request = range_protocol.release(self.queue, self.name)
        self.session.ask(request, body)

    def on_event(self, event: Event) -> None:
        if isinstance(event, MethodReply) and isinstance(event.method, methods.BasicConsumeOk):
            self._ready = True
        elif isinstance(event, Delivery):
            self._pending = False
            properties = decode_properties(event.properties, 0)
            headers = properties.headers or {}
            if properties.type_ == range_protocol.OK:
                self._answered(headers, bytes(event.body))
            elif headers["code"].value == NOT_FOUND and self._step in (LeaseStep.SETTLE, LeaseStep.RELEASE):
                self._done()  # the broker processed an earlier attempt, whose reply was lost
            elif self._step is LeaseStep.SETTLE:
                self._step = LeaseStep.RELEASE
            elif self._step is LeaseStep.READ:
                self._step = LeaseStep.TAKE

    def _answered(self, headers: Table, body: bytes) -> None:
        match self._step:
            case LeaseStep.TAKE:
                self._taken, self._spans = range_protocol.read_taken(headers), body
                if self._taken.count:
                    self._step = LeaseStep.READ
                else:
                    self._tried = False
            case LeaseStep.READ:
                self._read(RangeBatch(body))
            case LeaseStep.SETTLE | LeaseStep.RELEASE:
                self._done()

    def _read(self, batch: RangeBatch) -> None:
        self._rows = list(batch)
        self._bodies = tuple(row.body.decode() for row in self._rows)
        now = self.hosts.timeline.now_ms
        self.hosts.history.leased.append(LeasedRecord(self.name, self._number, self._bodies, now))
        if self.choice.random() < ASKED_AGAIN:
            self._step = LeaseStep.TAKE
            return
        gives_back = self.choice.random() < RELEASED
        self._step = LeaseStep.RELEASE if gives_back else LeaseStep.SETTLE

    def _done(self) -> None:
        """Finish this number. Record its deliveries only now, because the broker marks them as delivered only
        now."""
        for row in self._rows:
            headers = decode_properties(row.envelope.properties, 0).headers or {}
            self.hosts.history.delivered.append(
                DeliveredRecord(
                    row.body.decode(),
                    self.name,
                    self._number,
                    row.redelivered,
                    "x-orphaned-from" in headers,
                    "x-death" in headers,
                    self.node,
                    self.hosts.timeline.now_ms,
                )
            )
        self._number += 1
        self._tried, self._step, self._rows, self._bodies = False, LeaseStep.TAKE, [], ()
