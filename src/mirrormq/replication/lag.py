"""Lag of mirrors, and its consequences.

Confirms wait for every synchronised mirror, so one slow mirror slows down all publishers. For a while that
is right: they must not outrun it. But a mirror with a failing disk or an overloaded machine must not block
the queue for ever. Past the limits below its master proposes a view in which the mirror is a member that is
not synchronised. Confirms then no longer wait for it. The mirror catches up by itself, and is synchronised
again when it keeps pace.

The master keeps operations in its log for an unsynchronised mirror until the mirror has them. If the mirror
stays too far behind for that, it is *excluded*: dropped from log retention. When it is connected again it
begins again, with the messages that it has.

Operations pass from member to member. If one member has not received them, the members after it cannot have
received them either: only the first is late.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mirrormq.replication.ring import Ring, order

RING_BEHIND_OPERATIONS = 16_384
RING_BEHIND_BYTES = 16 * 1024 * 1024
"""Limits of operations that a member which confirms wait for has not received; publishers wait beyond them.
They are many times what is in flight in a ring that keeps pace, and small enough to be sent again after a
lost link."""

MIRROR_LATE_MS = 5_000
"""Time that an operation may take to reach a mirror's disk. The failure detector finds a failed or frozen
node within 3.75 s; this limit is for nodes that are slow."""
MIRROR_LATE_OPERATIONS = 262_144
MIRROR_LATE_BYTES = 256 * 1024 * 1024
"""Limits of operations behind a synchronised mirror's mark, which its master keeps in the log. Publishers are
blocked long before (a single message may have 128 MiB); this is the bound if they cannot be."""

MIRROR_EXCUSED_OPERATIONS = 65_536
MIRROR_EXCUSED_BYTES = 32 * 1024 * 1024
"""Limits of operations kept for an unsynchronised mirror. Beginning again costs it little: it reports what it
has."""

MIRROR_RECOVERED_MS = 1_000
"""Lag below which a mirror that catches up may be synchronised again."""

SAMPLE_MS = 100
"""Resolution of the recorded times of operations."""


class MirrorLag(NamedTuple):
    """Lag of a member behind its master."""

    operations: int
    """Operations that the member has not received yet."""
    size_bytes: int
    milliseconds: int
    """Age of the oldest operation that is not on its disk."""


class LagTracker:
    """Lag of a ring's members, measured on the master."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._times: deque[tuple[int, int]] = deque()
        """Pairs (operation, time at which it was the last one)."""

    def note(self, now_ms: int) -> None:
        """Record the time of the last operation. Operations between two records happened between their
        times."""
        times, ring = self._times, self._ring
        while times and times[0][0] <= ring.stable:
            times.popleft()
        if ring.received > (times[-1][0] if times else ring.stable):
            if len(times) > 1 and now_ms - times[-2][1] < SAMPLE_MS:
                times.pop()
            times.append((ring.received, now_ms))

    def ring_is_behind(self) -> bool:
        """Return whether publishers must wait."""
        ring = self._ring
        behind = ring.received - ring.completed.received
        return behind > RING_BEHIND_OPERATIONS or (
            behind > 0 and ring.log.bytes_after(ring.completed.received) > RING_BEHIND_BYTES
        )

    def lag(self, name: str, now_ms: int) -> MirrorLag:
        """Return the lag of a member."""
        ring = self._ring
        report = ring.reports.get(name)
        received, durable = (
            (ring.stable, ring.stable) if report is None else (report.received, report.durable)
        )
        since = next((time_ms for number, time_ms in self._times if number > durable), now_ms)
        behind = max(received, ring.stable)
        return MirrorLag(ring.received - received, ring.log.bytes_after(behind), now_ms - since)

    def late(self, now_ms: int) -> set[str]:
        """Return members that confirms wait for and that exceed the limits."""
        view = self._ring.view
        late = set()
        for name in order(view)[1:]:
            lag = self.lag(name, now_ms)
            too_late = view.awaits_confirms_of(name) and (
                lag.milliseconds > MIRROR_LATE_MS
                or lag.operations > MIRROR_LATE_OPERATIONS
                or lag.size_bytes > MIRROR_LATE_BYTES
            )
            if too_late:
                late.add(name)
                # Members to the right of this one receive through it, so their lag is not their own.
                if lag.operations:
                    break
        return late

    def excuse(self, now_ms: int) -> None:
        """Drop unsynchronised members that are too far behind from log retention."""
        ring, view = self._ring, self._ring.view
        ring.excluded = frozenset(
            name
            for name in view.members
            if not view.awaits_confirms_of(name) and self._exceeds_retention(self.lag(name, now_ms))
        )

    @staticmethod
    def _exceeds_retention(lag: MirrorLag) -> bool:
        return lag.operations > MIRROR_EXCUSED_OPERATIONS or lag.size_bytes > MIRROR_EXCUSED_BYTES

    def keeps_pace(self, name: str, now_ms: int) -> bool:
        """Return whether this member may be synchronised again."""
        return self.lag(name, now_ms).milliseconds < MIRROR_RECOVERED_MS
