"""The metadata on disk: one log file whose first entry is a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrormq.errors import DamageError
from mirrormq.metadata.state import State
from mirrormq.storage.errors import JournalFailed
from mirrormq.storage.metadata_log import MetadataLog
from mirrormq.storage.recovery import Dropped

_SNAPSHOT = b"S"
_COMMAND = b"C"


class MetadataFiles:
    """Tells snapshots from commands in a MetadataLog; the `Log` of a MetadataStore."""

    def __init__(
        self, log: MetadataLog, failed: Callable[[JournalFailed], None] = lambda failure: None
    ) -> None:
        self._log = log
        self._failed = failed
        """Told when a write fails, whoever asked for it: the state is ahead of the disk then."""

    @property
    def dropped(self) -> Sequence[Dropped]:
        """What `open` could not use."""
        return self._log.dropped

    def open(self) -> tuple[State, list[bytes]]:
        """The state of the last snapshot, and the commands since. Raises DamageError if there was a
        snapshot and it cannot be read: without it the node would begin as an empty one."""
        entries = self._log.open()
        state = State()
        if entries and entries[0].startswith(_SNAPSHOT):
            state = State.from_snapshot(entries.pop(0)[1:])
        elif self._log.dropped:
            lost = self._log.dropped[0]
            raise DamageError(
                f"the snapshot in {lost.path} is damaged, so users, queues and all the rest are unknown. "
                "Restore the file from a backup, or remove it to begin with the defaults."
            )
        return state, [entry[1:] for entry in entries]

    def append(self, entry: bytes, sync: bool) -> None:
        """A command."""
        try:
            self._log.append(_COMMAND + entry, sync)
        except JournalFailed as failure:
            self._failed(failure)
            raise

    def snapshot(self, blob: bytes) -> None:
        """A snapshot in place of everything before it."""
        try:
            self._log.replace([_SNAPSHOT + blob])
        except JournalFailed as failure:
            self._failed(failure)
            raise

    def close(self) -> None:
        """Sync and close."""
        self._log.close()
