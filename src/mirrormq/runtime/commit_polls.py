"""Polls of the sockets before metadata is written to disk: one sync then serves all clients that declare."""

from __future__ import annotations

from mirrormq import limits


class CommitPolls:
    """Count of polls since declarations began to arrive. `TurnLoop._commit_now` does the same for
    messages."""

    def __init__(self) -> None:
        self._polls = 0
        self._last_written = 0

    def once_more(self, last_written: int, unsettled: int) -> bool:
        """Return whether to poll once more: a write has arrived since the last poll and is not applied yet.
        A client that declares alone waits for one poll."""
        arriving = unsettled > 0 and last_written > self._last_written
        self._last_written = last_written
        self._polls = self._polls + 1 if arriving and self._polls < limits.COMMIT_POSTPONEMENTS else 0
        return self._polls > 0
