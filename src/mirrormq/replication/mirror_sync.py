"""What a master does for its mirrors: brings them up to date, and says who counts.

    a mirror that is not synchronised asks to be (`SyncRequest`), with what it has
    the master tells it what to drop, and sends what it lacks, batch by batch
    when nothing is missing the master proposes it as `joining`: confirms wait for it from then on
    when that has come true for all that was done before, it proposes it as synchronised
    a mirror that has begun again, or that is too late, is proposed as not synchronised

Proposals are for the metadata to adopt or not; a new view says which it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mirrormq.metadata.ring_view import View
from mirrormq.queues.message import Message
from mirrormq.replication.lag import LagTracker
from mirrormq.replication.replicating_backing import ReplicatingBackingQueue
from mirrormq.replication.ring import Completed, Ring
from mirrormq.replication.ring_messages import ReplicaMessage, SyncAck, SyncBatch, SyncRequest
from mirrormq.replication.ring_operations import AppendOperation, decode
from mirrormq.replication.sequence_set import Range, SequenceSet, unpack
from mirrormq.replication.synchronisation import Synchronisation, SyncPace


class SyncOptions(Protocol):
    """How mirrors are brought up to date; may change while it is done."""

    pace: SyncPace
    automatic: bool
    """`ha-sync-mode`: else only when somebody asks for it."""
    paused: bool
    """Memory is short."""


class MirrorSynchroniser:
    """One master's care for its mirrors."""

    def __init__(self, ring: Ring, options: SyncOptions) -> None:
        self._ring = ring
        self._options = options
        self.backing: ReplicatingBackingQueue
        self.producers: Mapping[str, int] = {}
        """The highest publish number of each producer: a mirror that joins must know."""
        self.sessions: dict[str, Synchronisation] = {}
        self.lateness = LagTracker(ring)
        self.asked_for = False
        """Somebody wants the mirrors to be synchronised, whatever the policy says."""
        self._lacking: dict[str, set[int]] = {}
        """Damaged messages that mirrors were synchronised without, as nobody had a good copy."""
        self._incomplete: set[str] = set()
        """Mirrors of which such a message has been repaired since: they have to join again."""
        self._counts_from: dict[str, Completed] = {}
        """For members that are joining, when confirms began to wait for them: the last operation then, and
        what had been confirmed as being on every disk without them."""

    # -- what happens ---------------------------------------------------------------------------

    def removed(self, ranges: list[Range]) -> None:
        """Messages have left the queue."""
        for session in self.sessions.values():
            session.removed(ranges)

    def repaired(self, sequences: Sequence[int]) -> None:
        """Damaged messages have been rewritten: mirrors that lack them get them."""
        for session in self.sessions.values():
            session.repaired(sequences)
        self._incomplete |= {
            name for name, lacking in self._lacking.items() if not lacking.isdisjoint(sequences)
        }

    def give_up(self, sequences: Sequence[int]) -> None:
        """Let mirrors be synchronised without damaged messages of which nobody has a good copy."""
        for name, session in self.sessions.items():
            if lacking := session.give_up(sequences):
                self._lacking.setdefault(name, set()).update(lacking)

    def appeared(self, sequence: int) -> None:
        """A message has come back that nobody could show."""
        for session in self.sessions.values():
            session.appeared(sequence)

    def changed(self, before: View) -> None:
        """The ring has a new view."""
        view = self._ring.view
        for name, session in list(self.sessions.items()):
            over = name in view.in_sync and view.sync_generation(name) == session.attempt
            if over or view.joined_with(name) != before.joined_with(name):
                del self.sessions[name]
        now = Completed(self._ring.received, self._ring.completed.durable)
        self._counts_from = {name: self._counts_from.get(name, now) for name in view.joining}
        if not any(name not in view.in_sync for name in view.members):
            self.asked_for = False

    def joined(self, sender: str, join: SyncRequest) -> ReplicaMessage | None:
        """A mirror wants to be synchronised; the answer says what it should drop and know."""
        if sender not in self._ring.view.members:
            return None
        backing = self.backing
        session = Synchronisation(
            join.attempt, backing.held(), unpack(join.have), self._coming(join.received), self._options.pace,
            sending=self._options.automatic or self.asked_for,
        )  # fmt: skip
        self.sessions[sender] = session
        self._lacking.pop(sender, None)
        self._incomplete.discard(sender)
        session.introduced()
        return SyncBatch(
            join.queue_id, join.epoch, join.attempt, [], session.surplus.pack(),
            backing.delivered_up_to, dict(self.producers), dict(backing.delivered_by), backing.gated,
        )  # fmt: skip

    def _coming(self, received: int) -> SequenceSet:
        """What the ring will bring to a mirror that has operations up to `received`."""
        ring = self._ring
        found = SequenceSet()
        for data in ring.log.after(max(received, ring.stable)):
            operation = decode(data)
            if isinstance(operation, AppendOperation):
                found.add(operation.first_sequence, len(operation.contents))
        return found

    def taken(self, sender: str, taken: SyncAck) -> None:
        """A mirror has a batch."""
        session = self.sessions.get(sender)
        if session is not None and session.attempt == taken.attempt:
            session.acknowledged()

    def synchronise(self, wanted: bool) -> None:
        """`sync_queue` and `cancel_sync_queue`."""
        self.asked_for = wanted
        for session in self.sessions.values():
            session.sending = wanted

    # -- what is to be done ---------------------------------------------------------------------

    def batches(self, now_ms: int) -> list[tuple[str, ReplicaMessage]]:
        """Messages for mirrors that lack some."""
        if self._options.paused:
            return []
        ring, found = self._ring, list[tuple[str, ReplicaMessage]]()
        for name, session in self.sessions.items():
            if ring.congested(name):
                continue
            session.pace = self._options.pace
            while (messages := session.next_batch(self.backing, now_ms)) is not None:
                batch = SyncBatch(ring.queue_id, ring.view.epoch, session.attempt, runs(messages))
                found.append((name, batch))
        return found

    def next_ms(self) -> int | None:
        """When there is something to send that may not be sent now."""
        waiting = [
            session.not_before_ms for session in self.sessions.values() if session.sending and session.missing
        ]
        return min(waiting, default=None)

    def proposal(self, now_ms: int, *, looking: bool) -> View | None:
        """The view that there should be; None if the present one is right. `looking`: for the late, too."""
        view = self._ring.view
        out = self._fallen() | (self.lateness.late(now_ms) if looking else set())
        joining = {name: view.sync_generation(name) for name in view.joining}
        if out:
            rest = {name: attempt for name, attempt in joining.items() if name not in out}
            return view.with_sync_generation(view.in_sync - out, rest)
        safe = {name for name in joining if self._is_safe(name)}
        if safe:
            rest = {name: attempt for name, attempt in joining.items() if name not in safe}
            return view.with_sync_generation(view.in_sync | safe, rest)
        caught_up = self._caught_up(now_ms)
        if caught_up:
            return view.with_sync_generation(view.in_sync, joining | caught_up)
        return None

    def _fallen(self) -> set[str]:
        """Members that count but have begun again, or have to."""
        view = self._ring.view
        return {
            name
            for name, session in self.sessions.items()
            if view.awaits_confirms_of(name) and session.attempt != view.sync_generation(name)
        } | set(filter(view.awaits_confirms_of, self._incomplete))

    def _is_safe(self, name: str) -> bool:
        """Does a joining member have what was confirmed without it? And do all others have what the master
        had done to the queue when it showed it to this member? Else one of them, promoted, would go on
        from an earlier state than the one this member was given."""
        ring, since = self._ring, self._counts_from[name]
        said = ring.reports.get(name)
        return (
            said is not None
            and said.attempt == ring.view.sync_generation(name)
            and said.durable >= since.durable
            and ring.completed.received >= since.received
        )

    def _caught_up(self, now_ms: int) -> dict[str, int]:
        """Members that hold everything, and by which attempt."""
        if not self.sessions or self.backing.unseen:
            return {}
        view = self._ring.view
        return {
            name: session.attempt
            for name, session in self.sessions.items()
            if session.done and not view.awaits_confirms_of(name) and self.lateness.keeps_pace(name, now_ms)
        }


def runs(messages: list[Message]) -> list[AppendOperation]:
    """Messages in ascending order as Appends: those in a row that share what an Append shares."""
    found: list[AppendOperation] = []
    last: tuple[int, bytes, bool, int] | None = None
    for message in messages:
        envelope = message.envelope
        shared = (message.sequence - 1, envelope.publish, envelope.persistent, message.expires_at)
        if shared == last:
            found[-1].contents.append(message.frames)
        else:
            found.append(AppendOperation(message.sequence, *shared[1:], [message.frames]))
        last = (message.sequence, *shared[1:])
    return found
