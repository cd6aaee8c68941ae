"""Transaction clients and get clients: publish in transactions, or fetch single messages."""

from __future__ import annotations

from collections import deque

from mirrormq.client.client_events import Event, GetReply, MethodReply
from mirrormq.simulator.run_history import AcknowledgedRecord, ConfirmedRecord, SentRecord
from mirrormq.simulator.workload import SimulatedClient, SimulatedConsumer, declarations, durable, single
from mirrormq.wire import methods
from mirrormq.wire.properties import PERSISTENT

TRANSACTION_MAX = 4
"""Messages of one transaction."""

ROLLBACKS = 0.1

SETTLES = 0.15
"""Probability per step that a holder settles messages that it holds."""


class TransactionClient(SimulatedClient):
    """Publisher that commits a few messages to its queues in a transaction, and sometimes rolls back.

    Messages that are rolled back do not count as sent: the checkers report a delivery of one as unknown.
    """

    def begin(self) -> None:
        self._ready = False
        self._under_way: list[str] = []
        assert self.session is not None
        for queue in self.queues:
            self.session.send(*declarations(queue))
        self.session.send(methods.encode_tx_select())

    def on_event(self, event: Event) -> None:
        match event:
            case MethodReply(_, methods.TxSelectOk()):
                self._ready = True
            case MethodReply(_, methods.TxCommitOk()):
                now = self.hosts.timeline.now_ms
                for body in self._under_way:
                    self.hosts.history.confirmed[body] = ConfirmedRecord(body, self.node, now)
                self._under_way = []

    def act(self) -> None:
        assert self.session is not None
        if not self._ready or self._under_way or self.resting:
            return
        rolled_back = self.choice.random() < ROLLBACKS
        for _ in range(self.choice.randint(1, TRANSACTION_MAX)):
            self._publish(self.choice.choice(self.queues), rolled_back)
        self.session.send(methods.encode_tx_rollback() if rolled_back else methods.encode_tx_commit())

    def _publish(self, queue: str, rolled_back: bool) -> None:
        assert self.session is not None
        sent = self.hosts.history.sent
        number = len(sent) + 1
        body = f"{queue} {self.name} {number}"
        if rolled_back:
            body += " given up"
        else:
            now = self.hosts.timeline.now_ms
            sent[body] = SentRecord(f"{self.name}/{self._connections}", number, queue, durable(queue), now)
            self._under_way.append(body)
        self.session.publish(queue, body.encode(), PERSISTENT)

    def waiting(self) -> bool:
        return not self._ready or bool(self._under_way)

    @property
    def unanswered(self) -> int:
        """Number of messages in an unanswered commit on an open connection."""
        return len(self._under_way) if self.session is not None else 0


class Holder(SimulatedConsumer):
    """Consumer that works long on each message, so that it holds some whenever a queue gets another master.
    Sometimes it acknowledges all of them at once."""

    def act(self) -> None:
        if self._held and self.choice.random() < SETTLES:
            super().act()
        elif self._held and self.choice.random() < SETTLES / 4:
            self.acknowledge_all()

    def acknowledge_all(self) -> None:
        """Acknowledge all held messages with one method."""
        assert self.session is not None
        now, last = self.hosts.timeline.now_ms, self._held[-1][0]
        for _, body in self._held:
            self.hosts.history.acknowledged[body] = AcknowledgedRecord(body, self.node, now)
        self._held.clear()
        self.session.send(methods.encode_basic_ack(last, True))


class GetClient(SimulatedConsumer):
    """Consumer that fetches one message at a time and acknowledges it. It avoids queues with an active
    consumer."""

    def begin(self) -> None:
        self._ready = self._pending = False
        self._held = deque()
        self.queue = self.choice.choice([queue for queue in self.queues if not single(queue)])
        assert self.session is not None
        self.session.send(*declarations(self.queue))

    def on_event(self, event: Event) -> None:
        match event:
            case MethodReply(_, methods.QueueDeclareOk()):
                self._ready = True
            case GetReply():
                self.take(event)
        self._pending = False

    def act(self) -> None:
        assert self.session is not None
        if self._ready and not self._pending:
            self._pending = True
            self.session.send(methods.encode_basic_get(self.queue, False))
        super().act()

    def waiting(self) -> bool:
        return not self._ready or self._pending
