"""The metadata on disk: one log file whose first entry is a snapshot."""

from __future__ import annotations

from mirrormq.metadata.state import State
from mirrormq.storage.metadata_log import MetadataLog

_SNAPSHOT = b"S"
_COMMAND = b"C"


class MetadataFiles:
    """Tells snapshots from commands in a MetadataLog; the `Log` of a MetadataStore."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log

    def open(self) -> tuple[State, list[bytes]]:
        """The state of the last snapshot, and the commands since."""
        entries = self._log.open()
        state = State()
        if entries and entries[0].startswith(_SNAPSHOT):
            state = State.from_snapshot(entries.pop(0)[1:])
        return state, [entry[1:] for entry in entries]

    def append(self, entry: bytes, sync: bool) -> None:
        """A command."""
        self._log.append(_COMMAND + entry, sync)

    def snapshot(self, blob: bytes) -> None:
        """A snapshot in place of everything before it."""
        self._log.snapshot([_SNAPSHOT + blob])

    def close(self) -> None:
        """Sync and close."""
        self._log.close()
