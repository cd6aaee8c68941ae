"""How long to wait before dialling again: longer each time, and never in step with others."""

from __future__ import annotations

from mirrormq.peers import peer_limits


class Backoff:
    """Pauses that double from `BACKOFF_FIRST_S` to `BACKOFF_MAX_S`, each cut by up to a half at random."""

    def __init__(self) -> None:
        self._pause_s = peer_limits.BACKOFF_FIRST_S

    def next_s(self, chance: float) -> float:
        """The next pause; `chance` is a random number from 0 to 1."""
        pause_s = self._pause_s * (0.5 + chance / 2)
        self._pause_s = min(self._pause_s * 2, peer_limits.BACKOFF_MAX_S)
        return pause_s

    def reset(self) -> None:
        """All was well for a while: start small again."""
        self._pause_s = peer_limits.BACKOFF_FIRST_S
