"""Delivery ledger: per queue, up to which publish its messages must have been delivered.

A trace shows that a message was routed to a queue, and that it was delivered. A missing delivery has no
trace, hence the audit must know when to stop waiting. A queue numbers its messages and reports the number of
the next one, and the lowest number it still holds. If `next` was N at some time, and later `first` is N or
higher, then every message of that time has left. A message published until then without a delivery is lost,
or left in another way.

The places of the traces in their own queue are the clock. Ticks lie between them; a tick carries the time and
the extents of the queues. Traces of different nodes may arrive out of order. Every conclusion from the time
of a tick therefore allows for a *grace* period:

- publishes that were traced a grace before a tick are in their queues when the tick reports `next`;
- deliveries of messages that had left when a tick reports `first` are traced a grace after it.

The trace queue itself may get another master. Its numbers then continue at the beginning of an *epoch*, far
above the last one, which distinguishes the jump from missing traces. The old master may have had traces that
the new one never received: messages published until then are not judged.

Conclusions depend only on the traces and ticks, in their order: judging a batch again gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

MARKS_MAX = 64
"""Marks kept per queue; above it every second one is dropped."""

TICKS_MAX = 4096
"""Ticks kept, to look up a place by its time: an hour of one a second."""

EPOCH_BITS = 44
"""Bits of a queue's sequence within one epoch; the bits above are the epoch
(`replication.synchronisation`)."""

WHOLE, GAP, TAKEN_OVER = "whole", "gap", "taken over"
"""Relation of traces to the previous ones: complete, with missing ones, or from another master."""

JUDGED, GONE, LEASED, UNSEEN = "judged", "gone", "leased", "unseen"
"""Ends of messages that have left a queue: judged, or not judged because the queue was deleted, because it
is read under a lease (which is not traced), or because traces are missing."""


class AuditTick(NamedTuple):
    """Tick among the traces."""

    place: int
    """Sequence in the trace queue."""
    time_ms: int
    asked_ms: int
    """Time at which the extents were requested."""
    queues: dict[str, list[Any] | None]
    """[first, next, id, master] of each requested queue; None if the queue does not exist."""
    leased: tuple[str, ...] = ()


class TickVerdict(NamedTuple):
    """Verdict on the messages of a queue whose publishes were traced up to `place`; `fate` is the kind."""

    queue: str
    place: int
    fate: str


@dataclass
class QueueState:
    """State of one queue."""

    id: int = 0
    master: str = ""
    failovers: int = 0
    leased: bool = False
    marks: list[list[int]] = field(default_factory=list)
    """[place, next]: publishes traced up to that place have lower sequences than `next`."""
    left: list[list[Any]] = field(default_factory=list)
    """[time, place, fate]: publishes up to that place had left the queue at that time."""


class DeliveryLedger:
    """Ledger that processes ticks in order and returns verdicts."""

    def __init__(self, grace_ms: int) -> None:
        self.grace_ms = grace_ms
        self.ticks: list[list[int]] = []
        """[place, time] of the latest ticks."""
        self.queues: dict[str, QueueState] = {}
        self.place = -1
        """Last place seen."""
        self.blind = -1
        """Publishes up to here may have untraced deliveries."""
        self.settled = -1
        """Traces up to here are older than the grace period."""

    def seen(self, first: int, last: int, count: int) -> str:
        """Record traces first … last of one epoch, `count` of them; return how they follow the previous
        ones."""
        follow = WHOLE
        if self.place not in (-1, first - 1):
            # The first sequence of an epoch has zeros below EPOCH_BITS: a jump to it is a new master, any
            # other a gap.
            begins = first - 1 & (1 << EPOCH_BITS) - 1 == 0
            follow = TAKEN_OVER if begins and first > self.place else GAP
        if count != last - first + 1:
            follow = GAP
        if follow != WHOLE:
            self.blind = last
        self.place = last
        return follow

    def untraced(self, place: int) -> None:
        """Record that tracing was off at this place."""
        self.blind = max(self.blind, place)

    def advance(self, tick: AuditTick) -> list[TickVerdict]:
        """Process the next tick; return the verdicts that it allows."""
        self.ticks = [*self.ticks[-TICKS_MAX + 1 :], [tick.place, tick.time_ms]]
        for name in tick.leased:
            self.queues.setdefault(name, QueueState()).leased = True
        covered = self._place_at(tick.asked_ms - self.grace_ms)
        for name, extent in tick.queues.items():
            self._update(self.queues.setdefault(name, QueueState()), extent, covered, tick.time_ms)
        self.settled = self._place_at(tick.time_ms - self.grace_ms)
        return [
            verdict
            for name, queue in self.queues.items()
            if (verdict := self._judge(name, queue, tick.time_ms)) is not None
        ]

    def forget(self, names: Iterable[str]) -> None:
        """Drop queues without pending messages."""
        for name in names:
            queue = self.queues.get(name)
            if queue is not None and not queue.leased:
                del self.queues[name]

    def _update(self, queue: QueueState, extent: list[Any] | None, covered: int, now_ms: int) -> None:
        if extent is None or (queue.id and extent[2] != queue.id):
            # The queue was deleted with all messages published to it until now.
            queue.marks = []
            queue.left.append([now_ms, covered, GONE])
        if extent is None:
            return
        first, next_, queue.id, master = extent
        if queue.master and master != queue.master:
            queue.failovers += 1
        queue.master = master
        passed = [mark for mark in queue.marks if mark[1] <= first]
        if passed:
            queue.left.append([now_ms, passed[-1][0], JUDGED])
            queue.marks = queue.marks[len(passed) :]
        if covered >= 0 and (not queue.marks or queue.marks[-1][0] < covered):
            queue.marks.append([covered, next_])
        if len(queue.marks) > MARKS_MAX:
            queue.marks = [*queue.marks[:-1:2], queue.marks[-1]]

    def _judge(self, name: str, queue: QueueState, now_ms: int) -> TickVerdict | None:
        ripe = [left for left in queue.left if left[0] + self.grace_ms <= now_ms]
        if not ripe:
            return None
        queue.left = queue.left[len(ripe) :]
        fate = LEASED if queue.leased else GONE if any(left[2] == GONE for left in ripe) else JUDGED
        return TickVerdict(name, max(left[1] for left in ripe), fate)

    def _place_at(self, time_ms: int) -> int:
        """Return the place of the last tick that is not later than this."""
        return max((place for place, at_ms in self.ticks if at_ms <= time_ms), default=-1)

    def as_dict(self) -> dict[str, Any]:
        """Return the ledger for JSON."""
        return {
            **vars(self),
            "queues": {name: asdict(queue) for name, queue in self.queues.items()},
        }

    @classmethod
    def of(cls, values: dict[str, Any]) -> DeliveryLedger:
        """Restore a ledger from `as_dict`."""
        ledger = cls(values["grace_ms"])
        vars(ledger).update(values)
        ledger.queues = {name: QueueState(**queue) for name, queue in values["queues"].items()}
        return ledger
