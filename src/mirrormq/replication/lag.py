"""Lag of mirrors, and its consequences.

Confirms wait for every synchronised mirror, so one slow mirror slows down all publishers. For a while that
is right: they must not outrun it. But a mirror with a failing disk or an overloaded machine must not block
the queue for ever. Past its limits (`ReplicationLimits`) its master proposes a view in which the mirror
is a member that is not synchronised. Confirms then no longer wait for it. The mirror catches up by itself,
and is synchronised again when it keeps pace.

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
        self._limits = ring.limits
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
        return behind > self._limits.ring_behind_operations or (
            behind > 0 and ring.log.bytes_after(ring.completed.received) > self._limits.ring_behind_bytes
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
                lag.milliseconds > self._limits.mirror_late_ms
                or lag.operations > self._limits.mirror_late_operations
                or lag.size_bytes > self._limits.mirror_late_bytes
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

    def _exceeds_retention(self, lag: MirrorLag) -> bool:
        limits = self._limits
        return (
            lag.operations > limits.mirror_excused_operations or lag.size_bytes > limits.mirror_excused_bytes
        )

    def keeps_pace(self, name: str, now_ms: int) -> bool:
        """Return whether this member may be synchronised again."""
        return self.lag(name, now_ms).milliseconds < self._limits.mirror_recovered_ms
