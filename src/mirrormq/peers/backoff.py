"""Backoff between dial attempts: growing pauses with random jitter."""

from __future__ import annotations

from mirrormq.peers import peer_limits


class Backoff:
    """Pauses that double from `BACKOFF_FIRST_S` to `BACKOFF_MAX_S`, each reduced at random by up to a
    half."""

    def __init__(self) -> None:
        self._pause_s = peer_limits.BACKOFF_FIRST_S

    def next_s(self, chance: float) -> float:
        """Return the next pause; `chance` is a random number from 0 to 1."""
        pause_s = self._pause_s * (0.5 + chance / 2)
        self._pause_s = min(self._pause_s * 2, peer_limits.BACKOFF_MAX_S)
        return pause_s

    def reset(self) -> None:
        """Start with the shortest pause again, after a link that was stable for a while."""
        self._pause_s = peer_limits.BACKOFF_FIRST_S
