"""Messages that the guarantees do not cover, because the only disk that had them failed."""

from __future__ import annotations


class SingleCopies:
    """Times in which messages may have been on one disk only, which failed then."""

    def __init__(self) -> None:
        self._excuses: list[tuple[int, int]] = []

    def excuse(self, from_ms: int, to_ms: int) -> None:
        """Excuse messages confirmed in this time."""
        self._excuses.append((from_ms, to_ms))

    def is_excused(self, at_ms: int) -> bool:
        """Return whether a message that was confirmed at this time may be lost."""
        return any(start <= at_ms <= stop for start, stop in self._excuses)
