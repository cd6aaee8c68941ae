"""Mirror synchroniser of a master: brings mirrors up to date and proposes which of them are synchronised.

    a mirror that is not synchronised sends a `SyncRequest` with the sequences that it has
    the master replies with the sequences to drop, and sends missing messages batch by batch
    when nothing is missing the master proposes the mirror as `joining`: confirms wait for it from then on
    when it has everything that was done before that, the master proposes it as synchronised
    the master proposes a mirror that has begun again, or is too late, as not synchronised

The metadata adopts a proposal or not; the next view shows which.
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
from mirrormq.replication.synchronisation import Synchronisation, SyncPace
from mirrormq.sequences.sequence_set import SequenceSet, unpack
from mirrormq.sequences.spans import Span


class SyncOptions(Protocol):
    """Options of synchronisation; may change while it runs."""

    pace: SyncPace
    automatic: bool
    """`ha-sync-mode: automatic`; otherwise mirrors are synchronised only on request."""
    paused: bool
    """Flag: memory is short."""


class MirrorSynchroniser:
    """Synchroniser of one master's mirrors."""

    def __init__(self, ring: Ring, options: SyncOptions) -> None:
        self._ring = ring
        self._options = options
        self.backing: ReplicatingBackingQueue
        self.producers: Mapping[str, int] = {}
        """Highest publish number of each producer, for joining mirrors."""
        self.sessions: dict[str, Synchronisation] = {}
        self.lateness = LagTracker(ring)
        self.asked_for = False
        """Flag: an operator requested synchronisation, whatever the policy says."""
        self._lacking: dict[str, set[int]] = {}
        """Damaged messages that mirrors were synchronised without, because no member had a good copy."""
        self._incomplete: set[str] = set()
        """Mirrors that lack a message which has been repaired since: they have to join again."""
        self._counts_from: dict[str, Completed] = {}
        """State at which confirms began to wait for each joining member: the last operation, and the
        operations confirmed as durable without it."""

    @property
    def steady(self) -> bool:
        """Return whether no mirror is being synchronised, or must be."""
        return not (self.sessions or self._ring.view.joining or self._incomplete)

    # -- input ----------------------------------------------------------------------------------

    def removed(self, ranges: list[Span]) -> None:
        """Record that messages have left the queue."""
        for session in self.sessions.values():
            session.removed(ranges)

    def repaired(self, sequences: Sequence[int]) -> None:
        """Send rewritten messages to the mirrors that lack them."""
        for session in self.sessions.values():
            session.repaired(sequences)
        self._incomplete |= {
            name for name, lacking in self._lacking.items() if not lacking.isdisjoint(sequences)
        }

    def give_up(self, sequences: Sequence[int]) -> None:
        """Let mirrors be synchronised without damaged messages of which no member has a good copy."""
        for name, session in self.sessions.items():
            if lacking := session.give_up(sequences):
                self._lacking.setdefault(name, set()).update(lacking)

    def appeared(self, sequence: int) -> None:
        """Add a requeued message whose content was unavailable before."""
        for session in self.sessions.values():
            session.appeared(sequence)

    def changed(self, before: View) -> None:
        """Adopt the ring's new view."""
        view = self._ring.view
        for name, session in list(self.sessions.items()):
            over = name in view.in_sync and view.sync_generation(name) == session.attempt
            if over or view.joined_with(name) != before.joined_with(name):
                del self.sessions[name]
        now = Completed(self._ring.received, self._ring.completed.durable)
        # A member that was joining keeps its mark: new views would otherwise delay it without end.
        self._counts_from = {name: self._counts_from.get(name, now) for name in view.joining}
        if not any(name not in view.in_sync for name in view.members):
            self.asked_for = False

    def joined(self, sender: str, join: SyncRequest) -> ReplicaMessage | None:
        """Handle a mirror's synchronisation request; the reply contains what it must drop and know."""
        if sender not in self._ring.view.members:
            return None
        backing = self.backing
        # Each known message of the queue is held by the mirror, under way to it through the ring, or missing.
        # Messages published from now on reach it through the ring, so nothing falls between the two paths.
        session = Synchronisation(
            join.attempt, backing.held(), unpack(join.have), self._coming(join.received), self._options.pace,
            sending=self._options.automatic or self.asked_for,
            in_flight_max=self._ring.limits.batches_in_flight,
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
        """Return the sequences that the ring will bring to a mirror that has operations up to `received`."""
        ring = self._ring
        found = SequenceSet()
        for data in ring.log.after(max(received, ring.stable)):
            operation = decode(data)
            if isinstance(operation, AppendOperation):
                found.add(operation.first_sequence, len(operation.contents))
        return found

    def taken(self, sender: str, taken: SyncAck) -> None:
        """Handle a mirror's acknowledgement of a batch."""
        session = self.sessions.get(sender)
        if session is not None and session.attempt == taken.attempt:
            session.acknowledged()

    def synchronise(self, wanted: bool) -> None:
        """Start or cancel synchronisation (`sync_queue`, `cancel_sync_queue`)."""
        self.asked_for = wanted
        for session in self.sessions.values():
            session.sending = wanted

    # -- output ---------------------------------------------------------------------------------

    def batches(self, now_ms: int) -> list[tuple[str, ReplicaMessage]]:
        """Return the next batches for mirrors that lack messages."""
        if not self.sessions or self._options.paused:
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
        """Return the time of the next batch that the throughput limit holds back."""
        waiting = [
            session.not_before_ms for session in self.sessions.values() if session.sending and session.missing
        ]
        return min(waiting, default=None)

    def proposal(self, now_ms: int, *, looking: bool) -> View | None:
        """Return the view to propose; None if the present one is right. `looking`: check for late members
        too."""
        view = self._ring.view
        if self.steady and not looking:
            return None
        # One step per view, removals first: confirms wait for these members, and one that has begun again may
        # lack confirmed messages, so it must not stay eligible for promotion.
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
        """Return joining or synchronised members that have begun again, or must do so."""
        view = self._ring.view
        return {
            name
            for name, session in self.sessions.items()
            if view.awaits_confirms_of(name) and session.attempt != view.sync_generation(name)
        } | set(filter(view.awaits_confirms_of, self._incomplete))

    def _is_safe(self, name: str) -> bool:
        """Return whether a joining member has everything that was confirmed without it, and all other members
        have every operation that the master had done when it sent its state to this one. Otherwise one of
        them, if promoted, would continue from an earlier state than this member's."""
        ring, since = self._ring, self._counts_from[name]
        said = ring.reports.get(name)
        return (
            said is not None
            and said.attempt == ring.view.sync_generation(name)
            and said.durable >= since.durable
            and ring.completed.received >= since.received
        )

    def _caught_up(self, now_ms: int) -> dict[str, int]:
        """Return the members that hold everything, with their synchronisation attempt."""
        # Unseen messages are in no list that a mirror is compared with, so no mirror is complete.
        if not self.sessions or self.backing.unseen:
            return {}
        view = self._ring.view
        return {
            name: session.attempt
            for name, session in self.sessions.items()
            if session.done and not view.awaits_confirms_of(name) and self.lateness.keeps_pace(name, now_ms)
        }


def runs(messages: list[Message]) -> list[AppendOperation]:
    """Group ascending messages into append operations: neighbours with the same lifetime."""
    found: list[AppendOperation] = []
    last: tuple[int, bool, int] | None = None
    for message in messages:
        envelope = message.envelope
        shared = (message.sequence - 1, envelope.persistent, message.expires_at)
        if shared == last:
            found[-1].publishes.append(envelope.publish)
            found[-1].contents.append(message.frames)
            found[-1].ingested_ms.append(message.ingested_ms)
        else:
            publishes, contents, ingested_ms = [envelope.publish], [message.frames], [message.ingested_ms]
            found.append(
                AppendOperation(message.sequence, publishes, *shared[1:], contents, ingested_ms=ingested_ms)
            )
        last = (message.sequence, *shared[1:])
    return found
