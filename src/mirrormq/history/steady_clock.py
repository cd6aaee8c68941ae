"""Unix time in nanoseconds that never jumps back, equal in all processes that share its offset."""

from __future__ import annotations

from time import monotonic_ns, time_ns


class SteadyClock:
    """Monotonic clock with a fixed offset to Unix time.

    The monotonic clock is shared by the whole machine. Processes that write one history agree on the order of
    events if all get the `offset_ns` of the first one.
    """

    __slots__ = ("offset_ns",)

    def __init__(self, offset_ns: int | None = None) -> None:
        self.offset_ns = time_ns() - monotonic_ns() if offset_ns is None else offset_ns

    def __call__(self) -> int:
        return monotonic_ns() + self.offset_ns
