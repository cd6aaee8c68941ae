"""Messages that the guarantees do not cover, because the only disk that had them failed."""

from __future__ import annotations

from mirrormq.simulator.run_history import RunHistory


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

    def may_be_lost(self, body: str, history: RunHistory) -> bool:
        """Return whether a message may be lost: it was published then, or a link moved it before that."""
        published = history.confirmed.get(body) or history.sent[body]
        moved_ms = history.moved_ms.get(body)
        moved = moved_ms is not None and any(stop >= moved_ms for _, stop in self._excuses)
        return moved or self.is_excused(published.at_ms)
