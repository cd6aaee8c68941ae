"""Clients of the less common kinds: some publish in transactions, some ask for single messages."""

from __future__ import annotations

from collections import deque

from mirrormq.client.client_events import Event, GetReply, MethodReply
from mirrormq.simulator.run_history import ConfirmedRecord, SentRecord
from mirrormq.simulator.workload import SimulatedClient, SimulatedConsumer, declarations, durable, single
from mirrormq.wire import methods
from mirrormq.wire.properties import PERSISTENT

TRANSACTION_MAX = 4
"""Messages of one transaction."""

ROLLBACKS = 0.1


class TransactionClient(SimulatedClient):
    """Publishes a few messages to its queues and commits them; sometimes it thinks better of it.

    What is rolled back does not count as sent: whoever gets it gets what nobody has published.
    """

    def begin(self) -> None:
        self._ready = False
        self._under_way: list[str] = []
        assert self.session is not None
        for queue in self.queues:
            self.session.send(*declarations(queue))
        self.session.send(methods.encode_tx_select())

    def hear(self, event: Event) -> None:
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
        given_up = self.choice.random() < ROLLBACKS
        for _ in range(self.choice.randint(1, TRANSACTION_MAX)):
            self._publish(self.choice.choice(self.queues), given_up)
        self.session.send(methods.encode_tx_rollback() if given_up else methods.encode_tx_commit())

    def _publish(self, queue: str, given_up: bool) -> None:
        assert self.session is not None
        sent = self.hosts.history.sent
        number = len(sent) + 1
        body = f"{queue} {self.name} {number}"
        if given_up:
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
        """Messages of a commit that nobody has answered, on a connection that is still there."""
        return len(self._under_way) if self.session is not None else 0


class GetClient(SimulatedConsumer):
    """Asks for one message at a time, and acknowledges as consumers do; but not queues that have an active
    consumer."""

    def begin(self) -> None:
        self._ready = self._asked = False
        self._held = deque()
        self.queue = self.choice.choice([queue for queue in self.queues if not single(queue)])
        assert self.session is not None
        self.session.send(*declarations(self.queue))

    def hear(self, event: Event) -> None:
        match event:
            case MethodReply(_, methods.QueueDeclareOk()):
                self._ready = True
            case GetReply():
                self.take(event)
        self._asked = False

    def act(self) -> None:
        assert self.session is not None
        if self._ready and not self._asked:
            self._asked = True
            self.session.send(methods.encode_basic_get(self.queue, False))
        super().act()

    def waiting(self) -> bool:
        return not self._ready or self._asked
