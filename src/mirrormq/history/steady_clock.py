"""Unix time in nanoseconds that never jumps back, and is the same in every process that shares its offset."""

from __future__ import annotations

from time import monotonic_ns, time_ns


class SteadyClock:
    """The monotonic clock, moved once so that it shows Unix time.

    The monotonic clock is one for the whole machine. Processes that write one history therefore agree on
    the order of events when they are all given the `offset_ns` of the first one.
    """

    __slots__ = ("offset_ns",)

    def __init__(self, offset_ns: int | None = None) -> None:
        self.offset_ns = time_ns() - monotonic_ns() if offset_ns is None else offset_ns

    def __call__(self) -> int:
        return monotonic_ns() + self.offset_ns
