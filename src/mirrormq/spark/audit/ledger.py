"""What is known of each queue while traces are followed: up to where its messages must have come out.

A trace shows that a message went into a queue, and that it came out. That it did not come out shows only by
its absence, so one must know when to stop waiting. A queue numbers its messages, and can say the number that
the next one will get, and the lowest number it still holds. If the next number was N at some time, and later
the lowest is N or higher, then everything that was there at that time has left. What had been published
until then and has no delivery is lost, or left by another door.

The places of the traces in their own queue are the clock. Ticks lie between them; a tick says what time it is
and what the queues said of themselves. Traces of different nodes need not come in the order of what they
tell, so whatever is concluded from the time of a tick allows for a *grace*:

- publishes that were traced a grace before a tick are in their queues when the tick says `next`;
- deliveries of what had left when a tick said `first` are traced a grace after it.

The queue of traces may itself go to another master. Its numbers then go on at the beginning of an *epoch*,
far above the last one, so the jump is told from traces that are missing. Whether the old master had traces
that the new one never got, nobody knows: what was published until then is not judged either.

What is concluded depends on the traces and ticks alone, in their order. So a batch that is judged again comes
to the same conclusions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

MARKS_MAX = 64
"""Places remembered for one queue at which it is waited for; more are thinned out."""

TICKS_MAX = 4096
"""Ticks remembered, to look a place up by its time: an hour of one a second."""

EPOCH_BITS = 44
"""A queue's numbers below these bits are of one master; above them is which one (`replication.sync`)."""

WHOLE, GAP, TAKEN_OVER = "whole", "gap", "taken over"
"""How traces follow those before them: none is missing, some are, or another master's begin."""

JUDGED, GONE, LEASED, UNSEEN = "judged", "gone", "leased", "unseen"
"""What becomes of a queue's messages that have left: they are judged; or they cannot be, because the queue
was deleted, because it is read under a lease (which is not traced), because traces are missing."""


class AuditTick(NamedTuple):
    """A tick among the traces."""

    place: int
    """Its sequence in the queue of traces."""
    time_ms: int
    asked_ms: int
    """When the queues were asked."""
    queues: dict[str, list[Any] | None]
    """[first, next, id, master] of each queue that was asked for; None if there was none."""
    leased: tuple[str, ...] = ()


class TickVerdict(NamedTuple):
    """Messages of a queue whose publishes were traced up to `place` can be judged, or not, as `fate` says."""

    queue: str
    place: int
    fate: str


@dataclass
class QueueState:
    """What is remembered of one queue."""

    id: int = 0
    master: str = ""
    failovers: int = 0
    leased: bool = False
    marks: list[list[int]] = field(default_factory=list)
    """[place, next]: publishes traced up to that place have lower numbers than that."""
    left: list[list[Any]] = field(default_factory=list)
    """[time, place, fate]: seen to have left at that time, publishes up to that place."""


class DeliveryLedger:
    """Takes ticks in their order and says what can be judged."""

    def __init__(self, grace_ms: int) -> None:
        self.grace_ms = grace_ms
        self.ticks: list[list[int]] = []
        """[place, time] of the latest ticks."""
        self.queues: dict[str, QueueState] = {}
        self.place = -1
        """The last place that was seen."""
        self.blind = -1
        """Of publishes up to here it is not known that all their deliveries were traced."""
        self.settled = -1
        """Traces up to here are a grace old."""

    def seen(self, first: int, last: int, count: int) -> str:
        """Traces first … last of one epoch, so many of them; how they follow those before."""
        follow = WHOLE
        if self.place not in (-1, first - 1):
            begins = first - 1 & (1 << EPOCH_BITS) - 1 == 0
            follow = TAKEN_OVER if begins and first > self.place else GAP
        if count != last - first + 1:
            follow = GAP
        if follow != WHOLE:
            self.blind = last
        self.place = last
        return follow

    def untraced(self, place: int) -> None:
        """Tracing was off at this place."""
        self.blind = max(self.blind, place)

    def advance(self, tick: AuditTick) -> list[TickVerdict]:
        """The next tick; what it allows to be judged."""
        self.ticks = [*self.ticks[-TICKS_MAX + 1 :], [tick.place, tick.time_ms]]
        for name in tick.leased:
            self.queues.setdefault(name, QueueState()).leased = True
        covered = self._place_at(tick.asked_ms - self.grace_ms)
        for name, said in tick.queues.items():
            self._hear(self.queues.setdefault(name, QueueState()), said, covered, tick.time_ms)
        self.settled = self._place_at(tick.time_ms - self.grace_ms)
        return [
            verdict
            for name, queue in self.queues.items()
            if (verdict := self._judge(name, queue, tick.time_ms)) is not None
        ]

    def forget(self, names: Iterable[str]) -> None:
        """Nothing of these queues is waited for."""
        for name in names:
            queue = self.queues.get(name)
            if queue is not None and not queue.leased:
                del self.queues[name]

    def _hear(self, queue: QueueState, said: list[Any] | None, covered: int, now_ms: int) -> None:
        if said is None or (queue.id and said[2] != queue.id):
            # What it held went with it, whatever was published to it until now.
            queue.marks = []
            queue.left.append([now_ms, covered, GONE])
        if said is None:
            return
        first, next_, queue.id, master = said
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
        """The place of the last tick that is not later than this."""
        return max((place for place, at_ms in self.ticks if at_ms <= time_ms), default=-1)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **vars(self),
            "queues": {name: asdict(queue) for name, queue in self.queues.items()},
        }

    @classmethod
    def of(cls, values: dict[str, Any]) -> DeliveryLedger:
        """What `as_dict` gave."""
        ledger = cls(values["grace_ms"])
        vars(ledger).update(values)
        ledger.queues = {name: QueueState(**queue) for name, queue in values["queues"].items()}
        return ledger
