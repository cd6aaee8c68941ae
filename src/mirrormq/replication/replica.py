"""One node's part in one mirrored queue: it is the master, or it is a mirror, and may change over.

Everything that happens comes in as a call (a view from the metadata, a message from another member,
word that the journal has been flushed) and everything to be done goes out by `take`: messages to
send, and what the metadata should be told. The parts know nothing of each other: the ring carries,
the copy keeps, the synchronisation catches up. This is where they meet.

    a mirror that is not synchronised asks to be (`Join`), with what it has
    the master drops what it should not have, sends what it lacks, batch by batch
    when nothing is missing the master proposes it as `joining`: confirms wait for it from then on
    when what had been confirmed before has come round as well, it proposes it as synchronised
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mirrormq.metadata.view import View
from mirrormq.queues.backing import BackingQueue, QueueStore
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.replication.master import MirroredMaster
from mirrormq.replication.mirror import MirrorCopy
from mirrormq.replication.operations import Lap
from mirrormq.replication.ranges import Range
from mirrormq.replication.ring import Completed, Ring
from mirrormq.replication.sync import Synchronisation, SyncPace, first_sequence


class Join(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """A mirror wants to be synchronised, and says what it has."""

    queue_id: int
    epoch: int
    version: int
    """Of the view that made it a member: the master may hear of that later."""
    attempt: int
    """Every batch for it says so; those of an earlier attempt are too old to be of use."""
    have: list[Range]


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way to a mirror."""

    sequence: int
    publish: bytes
    properties: bytes
    frames: bytes
    expires_at: int


class SyncBatch(msgspec.Struct, frozen=True, array_like=True, tag="sync"):
    """Older messages for a mirror, and sequences that it should not have."""

    queue_id: int
    epoch: int
    attempt: int
    messages: list[Stored]
    drop: list[Range]


class SyncTaken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """The mirror has a batch."""

    queue_id: int
    epoch: int
    attempt: int


class Again(msgspec.Struct, frozen=True, array_like=True, tag="again"):
    """A member begins again and asks its left-hand neighbour for what it has."""

    queue_id: int
    epoch: int


ReplicaMessage = Lap | Join | SyncBatch | SyncTaken | Again


class ReplicaWork(NamedTuple):
    """What is to be done after a call."""

    sends: list[tuple[str, ReplicaMessage]]
    proposals: list[View]
    """Views that the metadata should adopt, if nothing has changed meanwhile."""
    completed: Completed | None
    """Master only: how far the ring has come."""


class Replica:
    """A queue on one of its nodes."""

    def __init__(
        self,
        queue_id: int,
        me: str,
        view: View,
        store: QueueStore,
        held: list[Range],
        make_backing: Callable[[list[int]], BackingQueue],
        *,
        durable: bool,
        pace: SyncPace | None = None,
        automatic_sync: bool = True,
    ) -> None:
        self.queue_id = queue_id
        self.me = me
        self.automatic_sync = automatic_sync
        self._store = store
        self._durable = durable
        self._make_backing = make_backing
        self._pace = pace or SyncPace()
        self._sends: list[tuple[str, ReplicaMessage]] = []
        self._proposals: list[View] = []
        self.sessions: dict[str, Synchronisation] = {}
        self._counts_from: dict[str, int] = {}
        """For members that are joining: what had been confirmed before confirms waited for them."""
        self._asked: View | None = None
        self._attempt = 0
        self._asked_again = 0
        """The last view in which it asked its left-hand neighbour to begin."""
        self._early_joins: dict[str, Join] = {}
        self.ring = Ring(queue_id, me, view)
        self.copy: MirrorCopy | None = MirrorCopy(store, held, durable=durable)
        self.backing: MirroredMaster | None = None
        if self.ring.is_master:
            self._become_master()

    @property
    def view(self) -> View:
        """Who is in the ring."""
        return self.ring.view

    # -- in -------------------------------------------------------------------------------------

    def change(self, view: View) -> None:
        """The metadata has a new view."""
        was_master = self.ring.is_master
        before = self.ring.view
        self.ring.change(view)
        for name in list(self.sessions):
            if view.joined_with(name) != before.joined_with(name):
                del self.sessions[name]
        if self.ring.is_master and not was_master:
            self._become_master()
        if self.copy is not None and self.me in view.in_sync:
            self.copy.end_synchronisation()
        if self.ring.is_master:
            durable = self.ring.completed.durable
            self._counts_from = {name: self._counts_from.get(name, durable) for name in view.joining}
        early, self._early_joins = self._early_joins, {}
        for sender, join in early.items():
            self.receive(sender, join)

    def receive(self, sender: str, message: ReplicaMessage) -> None:
        """Something from another member."""
        if isinstance(message, Lap):
            self.ring.receive(sender, message)
        elif isinstance(message, Join) and (message.epoch, message.version) > self.view[:2]:
            self._early_joins[sender] = message
        elif message.epoch != self.view.epoch:
            return
        elif isinstance(message, Join):
            self._joined(sender, message)
        elif isinstance(message, SyncBatch):
            self._synchronise(sender, message)
        elif isinstance(message, Again):
            self.ring.reconnected(sender)
        elif isinstance(message, SyncTaken):
            session = self.sessions.get(sender)
            if session is not None and session.attempt == message.attempt:
                session.acknowledged()

    def flushed(self) -> None:
        """What was applied so far is on disk."""
        self.ring.persisted(self.ring.received)

    def reconnected(self, peer: str) -> None:
        """The link to a peer is new."""
        self.ring.reconnected(peer)
        self._asked = None

    # -- out ------------------------------------------------------------------------------------

    def take(self) -> ReplicaWork:
        """Everything to be done since the last time."""
        work = self.ring.take()
        if work.diverged:
            self._start_afresh()
        elif self.copy is not None and work.operations:
            self.copy.apply(work.operations)
        self._sends += work.sends
        if self.ring.is_master:
            self._serve_mirrors()
        else:
            self._ask_to_join()
        sends, self._sends = self._sends, []
        proposals, self._proposals = self._proposals, []
        return ReplicaWork(sends, proposals, self.ring.completed if self.ring.is_master else None)

    # -- the mirror's side ----------------------------------------------------------------------

    def _start_afresh(self) -> None:
        """It has heard what the master has not: begin again, and let numbers tell what is to be kept."""
        self.ring = Ring(self.queue_id, self.me, self.view)
        self._attempt += 1
        self.ring.attempt = self._attempt
        self._asked = None
        self._asked_again = 0

    def _ask_to_join(self) -> None:
        view = self.view
        if self.me not in view.members:
            return
        if self.ring.fresh and self._asked_again < view.version:
            self._asked_again = view.version
            self._sends.append((self.ring.left_neighbour, Again(self.queue_id, view.epoch)))
        standing = view.counts(self.me) and view.standing(self.me) == self.ring.attempt
        if standing or not self.ring.established:
            return
        if self._asked is not None and self._asked.epoch == view.epoch:
            return
        assert self.copy is not None
        self._asked = view
        self._attempt += 1
        self.ring.attempt = self._attempt
        have = self.copy.begin_synchronisation()
        self._sends.append((view.master, Join(self.queue_id, view.epoch, view.version, self._attempt, have)))

    def _synchronise(self, sender: str, batch: SyncBatch) -> None:
        if sender != self.view.master or self.copy is None or batch.attempt != self._attempt:
            return
        self.copy.drop(batch.drop)
        self.copy.synchronise([_message(stored) for stored in batch.messages])
        self._sends.append((sender, SyncTaken(self.queue_id, batch.epoch, batch.attempt)))

    # -- the master's side ----------------------------------------------------------------------

    def _become_master(self) -> None:
        assert self.copy is not None
        held = self.copy.held.ranges()
        backing = self._make_backing(self.copy.hand_over())
        backing.next_sequence = max(backing.next_sequence, first_sequence(self.view.epoch))
        self.backing = MirroredMaster(backing, self._store, held, self.ring.broadcast, self._removed)
        self.copy = None
        self.sessions.clear()

    def _removed(self, ranges: list[Range]) -> None:
        for session in self.sessions.values():
            session.removed(ranges)

    def _joined(self, sender: str, join: Join) -> None:
        if not self.ring.is_master or sender not in self.view.members or self.backing is None:
            return
        live = self.backing.held.ranges()
        session = Synchronisation(
            sender, join.attempt, live, join.have, self._pace, sending=self.automatic_sync
        )
        self.sessions[sender] = session
        if session.surplus:
            drop = SyncBatch(self.queue_id, self.view.epoch, join.attempt, [], session.surplus.ranges())
            self._sends.append((sender, drop))

    def _serve_mirrors(self) -> None:
        assert self.backing is not None
        for name, session in self.sessions.items():
            while (messages := session.next_batch(self.backing.load)) is not None:
                batch = SyncBatch(
                    self.queue_id, self.view.epoch, session.attempt, list(map(_stored, messages)), []
                )
                self._sends.append((name, batch))
        self._propose()

    def _propose(self) -> None:
        """Take mirrors that have caught up one step further, and back those that have begun again."""
        view, sessions = self.view, self.sessions
        joining = {name: view.standing(name) for name in view.joining}
        fallen = {
            name
            for name, session in sessions.items()
            if view.counts(name) and session.attempt != view.standing(name)
        }
        caught_up = {name for name, session in sessions.items() if session.done and not view.counts(name)}
        safe = {name for name in joining if self.ring.completed.durable >= self._counts_from.get(name, 0)}
        if fallen:
            self._proposals.append(
                view.with_standing(
                    view.in_sync - fallen, {n: at for n, at in joining.items() if n not in fallen}
                )
            )
        elif safe and self.ring.heard_all_round:
            arrived = {name: at for name, at in joining.items() if name not in safe}
            after = view.with_standing(view.in_sync | safe, arrived)
            self._proposals.append(after)
        elif caught_up:
            attempts = {name: sessions[name].attempt for name in caught_up}
            self._proposals.append(view.with_standing(view.in_sync, joining | attempts))


def _stored(message: Message) -> Stored:
    envelope = message.envelope
    return Stored(message.sequence, envelope.publish, envelope.properties, message.frames, message.expires_at)


def _message(stored: Stored) -> Message:
    message = Message(make_envelope(stored.publish, stored.properties), stored.frames, stored.expires_at)
    message.sequence = stored.sequence
    return message
