"""Which mirrors are late, and what becomes of them.

Confirms wait for every synchronised mirror, so one that has become slow makes all publishers slow. For a
while that is right: they should not outrun it. But a mirror whose disk is failing, or whose machine is
overloaded, must not hold up the queue for ever. Past the limits below its master proposes a view in which
it is a member like before, but not synchronised: nobody waits for it. It catches up by itself, and is
counted again when it keeps pace.

A mirror that does not count is not waited for, but operations are kept for it until it has them. If it
stays too far behind for that it is *excused*, and when it is heard of again it begins again, with what
it has.

Operations pass from member to member, so if one has not even received them it is no wonder that those
behind it have not either: only the first is to blame.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mirrormq.replication.ring import Ring, order

RING_BEHIND_OPERATIONS = 16_384
RING_BEHIND_BYTES = 16 * 1024 * 1024
"""When more than this has not come to every mirror that counts, publishers wait: many times what is under
way in a ring that keeps pace, and little enough to be sent again after a cut."""

MIRROR_LATE_MS = 5_000
"""How long an operation may take to be on a mirror's disk. A dead or frozen node is found out within 3.75 s
by the failure detector; this is for those that live and are slow."""
MIRROR_LATE_OPERATIONS = 262_144
MIRROR_LATE_BYTES = 256 * 1024 * 1024
"""What may be behind a mirror's mark: the log that its master keeps. Publishers are slowed long before (a
single message may have 128 MiB); this is the bound in case they cannot be."""

MIRROR_EXCUSED_OPERATIONS = 65_536
MIRROR_EXCUSED_BYTES = 32 * 1024 * 1024
"""The same for mirrors that do not count. Beginning again costs them little: they say what they have."""

MIRROR_RECOVERED_MS = 1_000
"""A mirror that catches up is counted again when it is less than this behind."""

SAMPLE_MS = 100
"""How exactly the time of an operation is remembered."""


class MirrorLag(NamedTuple):
    """How far a member is behind its master."""

    operations: int
    """Not received yet …"""
    size_bytes: int
    milliseconds: int
    """… and since when something is not on its disk."""


class LagTracker:
    """Times of operations, and what follows from them. Master only."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._times: deque[tuple[int, int]] = deque()
        """(operation, when it was the last one)."""

    def note(self, now_ms: int) -> None:
        """Remember when the last operation happened; the others happened between two notes."""
        times, ring = self._times, self._ring
        while times and times[0][0] <= ring.stable:
            times.popleft()
        if ring.received > (times[-1][0] if times else ring.stable):
            if len(times) > 1 and now_ms - times[-2][1] < SAMPLE_MS:
                times.pop()
            times.append((ring.received, now_ms))

    def ring_is_behind(self) -> bool:
        """Should publishers wait?"""
        ring = self._ring
        behind = ring.received - ring.completed.received
        return behind > RING_BEHIND_OPERATIONS or (
            behind > 0 and ring.log.bytes_after(ring.completed.received) > RING_BEHIND_BYTES
        )

    def lag(self, name: str, now_ms: int) -> MirrorLag:
        """How far a member is behind."""
        ring = self._ring
        said = ring.reports.get(name)
        received, durable = (ring.stable, ring.stable) if said is None else (said.received, said.durable)
        since = next((at for number, at in self._times if number > durable), now_ms)
        behind = max(received, ring.stable)
        return MirrorLag(ring.received - received, ring.log.bytes_after(behind), now_ms - since)

    def late(self, now_ms: int) -> set[str]:
        """Members that count and should not."""
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
                if lag.operations:
                    break
        return late

    def excuse(self, now_ms: int) -> None:
        """Members that do not count and are too far behind are not waited for any more."""
        ring, view = self._ring, self._ring.view
        ring.excused = frozenset(
            name
            for name in view.members
            if not view.awaits_confirms_of(name) and self._inexcusable(self.lag(name, now_ms))
        )

    @staticmethod
    def _inexcusable(lag: MirrorLag) -> bool:
        return lag.operations > MIRROR_EXCUSED_OPERATIONS or lag.size_bytes > MIRROR_EXCUSED_BYTES

    def keeps_pace(self, name: str, now_ms: int) -> bool:
        """May this member count again?"""
        return self.lag(name, now_ms).milliseconds < MIRROR_RECOVERED_MS
