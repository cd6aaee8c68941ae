"""Manifest of a journal: its identity, its generation, and the segments that it must have.

The manifest is one `EntryLog` beside the segments. Its first entry is the whole state. Each further entry
is a list of changes, which a crash leaves whole or not at all:

    Created     a segment's name and header are durable; written before the first record in it
    Sealed      a segment has its final length; written with the next change, because it saves a sync
    Removed     a segment is about to be removed; written before its file is removed
    Cleared     the node has handled the damage that recovery reported

A crash therefore leaves one of three cases. A segment that is not listed and has a higher number than any
listed one holds no record. A segment that is not listed and has a lower number was being removed. A
segment that is listed exists. Anything else is damage: `recovery` compares.

A segment is listed with its salt, so that a file of another journal with the same number is detected, also
in format 1. It is listed with its length once sealed, so that a shortened file is detected.
"""

from __future__ import annotations

import msgspec

from mirrormq.errors import DamageError
from mirrormq.storage.disk import Disk
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.journal_limits import DAMAGE_REASONS_MAX, KNOWN_DAMAGE_MAX

NAME = "manifest"


Span = tuple[int, int, bool]
"""Offset, length, and whether the bytes are known to have been synced."""


class ListedSegment(msgspec.Struct, array_like=True):
    """Segment that must exist."""

    number: int
    salt: int
    length: int = 0
    """Final length in bytes; 0 while records may be appended."""
    damaged: list[Span] = []
    """Damaged spans that recovery has reported before."""


class ManifestState(msgspec.Struct, array_like=True, tag="state"):
    """Complete state of a manifest."""

    identity: bytes
    generation: int
    last_number: int
    """Highest segment number ever used."""
    segments: list[ListedSegment]
    damage: list[tuple[str, bool]] = []
    """Reasons why the journal counts as damaged, until the node has handled them. Each says whether the
    lost bytes are known to have been synced."""


class _Created(msgspec.Struct, array_like=True, tag="created"):
    segment: ListedSegment


class _Sealed(msgspec.Struct, array_like=True, tag="sealed"):
    number: int
    length: int


class _Removed(msgspec.Struct, array_like=True, tag="removed"):
    number: int


class _Cleared(msgspec.Struct, array_like=True, tag="cleared"):
    pass


Change = _Created | _Sealed | _Removed | _Cleared
_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(ManifestState).decode
_decode_changes = msgspec.msgpack.Decoder(list[Change]).decode


class Manifest:
    """Durable list of the segments of one journal."""

    def __init__(self, disk: Disk, directory: str, entries_max: int) -> None:
        self._disk = disk
        self._directory = directory
        self._entries_max = entries_max
        self._log = EntryLog(disk, directory, NAME)
        self._opened = False
        self._sealed: list[_Sealed] = []
        """Changes that are written with the next durable change."""
        self.identity = b""
        self.generation = 0
        self._last_number = 0
        self._segments: dict[int, ListedSegment] = {}
        self._damage: list[tuple[str, bool]] = []

    def read(self) -> tuple[ManifestState | None, str | None]:
        """Read the file. Return its state, or None if it is missing or unusable; and a reason if it is
        damaged."""
        if NAME not in self._disk.list(self._directory):
            return None, None
        try:
            entries = self._log.open()
            self._opened = True
        except DamageError:
            self._disk.rename(f"{self._directory}/{NAME}", f"{self._directory}/{NAME}.damaged")
            self._disk.sync_directory(self._directory)
            return None, "its header is damaged"
        reason = None
        if any(dropped.damage for dropped in self._log.dropped):
            reason = "some of its entries are damaged"
        if not entries:
            return (
                None,
                reason,
            )  # without a reason: a crash happened between creating the file and its first entry
        try:
            self._restore(_decode_state(entries[0]))
            for entry in entries[1:]:
                for change in _decode_changes(entry):
                    self._apply(change)
        except msgspec.DecodeError as error:
            return None, f"it cannot be read: {error}"
        return self._state(), reason

    def begin(self, state: ManifestState) -> None:
        """Replace the file by this state, durably. Changes follow."""
        self._restore(state)
        if not self._opened:
            self._log.open()
            self._opened = True
        self._write([_encode(state)])

    def _restore(self, state: ManifestState) -> None:
        self.identity, self.generation = state.identity, state.generation
        self._last_number = state.last_number
        self._segments = {segment.number: segment for segment in state.segments}
        self._damage = list(state.damage)

    def _state(self) -> ManifestState:
        return ManifestState(
            self.identity, self.generation, self._last_number, list(self._segments.values()), self._damage
        )

    def _apply(self, change: Change) -> None:
        match change:
            case _Created(segment):
                self._segments[segment.number] = segment
                self._last_number = max(self._last_number, segment.number)
            case _Sealed(number, length) if number in self._segments:
                self._segments[number].length = length
            case _Removed(number):
                self._segments.pop(number, None)
            case _Cleared():
                self._damage = []

    def created(self, number: int, salt: int) -> None:
        """List a new segment, durably."""
        self._change(_Created(ListedSegment(number, salt)))

    def sealed(self, number: int, length: int) -> None:
        """Record the final length of a segment; durable with the next change."""
        self._sealed.append(_Sealed(number, length))

    def removed(self, number: int) -> None:
        """Remove a segment from the list, durably."""
        self._change(_Removed(number))

    def clear_damage(self) -> None:
        """Forget the reasons why the journal counts as damaged, durably."""
        if self._damage:
            self._change(_Cleared())

    def _change(self, last: Change | None) -> None:
        changes: list[Change] = [*self._sealed, *([] if last is None else [last])]
        self._sealed = []
        for change in changes:
            self._apply(change)
        if self._log.entries >= self._entries_max:
            self._write([_encode(self._state())])
            return
        try:
            self._log.append(_encode(changes), sync=True)
        except JournalFailed as failure:
            raise OSError(str(failure)) from failure

    def _write(self, entries: list[bytes]) -> None:
        try:
            self._log.replace(entries)
        except JournalFailed as failure:
            raise OSError(str(failure)) from failure

    def close(self) -> None:
        """Write pending changes and close the file."""
        try:
            if self._sealed:
                self._change(None)
            self._log.close()
        except JournalFailed as failure:
            raise OSError(str(failure)) from failure


def listed(number: int, salt: int, length: int, damaged: list[Span]) -> ListedSegment:
    """Return the entry of a segment. Damaged spans beyond a limit are reported again by the next recovery."""
    return ListedSegment(number, salt, length, damaged[:KNOWN_DAMAGE_MAX])


def bounded(reasons: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return distinct reasons, at most DAMAGE_REASONS_MAX, so that a manifest stays small."""
    return list(dict.fromkeys(reasons))[:DAMAGE_REASONS_MAX]
