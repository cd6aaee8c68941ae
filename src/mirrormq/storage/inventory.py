"""Segment inventory: comparison of the segment files with the manifest, when a journal is opened.

    file is              and the manifest                         then it is
    listed               names its salt                           replayed
    listed               names another salt, or its header        set aside, damage
                         names another journal or is unreadable
    not listed           is whole, and its number was used        removed: its removal was in progress
    not listed           its number was never used, no records    removed: its creation was in progress
    not listed           its header is unreadable, no records     removed: its creation was in progress
    not listed           its number was never used, records       replayed, damage: the manifest is old
    not listed           its header names another journal         set aside, damage
    absent               lists it                                 damage

Without a manifest there is no list. A directory without segments gets a new identity. One with format 1
segments is upgraded. One with format 2 segments has lost its manifest, which is damage.

Files are renamed or removed only after the manifest durably records that the journal is damaged. Otherwise
a crash in between would hide the evidence.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from mirrormq.storage import manifest as manifests
from mirrormq.storage.manifest import ListedSegment, Manifest, ManifestState, Span
from mirrormq.storage.recovery_report import Dropped, RecoveryReport
from mirrormq.storage.segment_header import FORMAT, SegmentHeader, read_segment_header

if TYPE_CHECKING:
    from mirrormq.storage.disk import Disk
    from mirrormq.storage.segments import Segments

MISSING = "the segment is missing"


class SegmentVerdict(Enum):
    """Decision about a segment file."""

    REPLAY = "replay"
    REMOVE = "remove"
    DAMAGED = "damaged"
    """Rename to *.damaged."""
    FOREIGN = "foreign"
    """Of another journal: rename to *.foreign."""


class SegmentInventory:
    """Files of one journal directory, compared with its manifest."""

    def __init__(
        self, disk: Disk, directory: str, segments: Segments, manifest: Manifest, report: RecoveryReport
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._manifest = manifest
        self._report = report
        self._state, self._problem = manifest.read()
        self._listed = {item.number: item for item in self._state.segments} if self._state else {}
        self._last_number = self._state.last_number if self._state else 0
        self._found = segments.found()
        self._aside: list[tuple[str, str]] = []
        self._remove: list[str] = []
        self._reported: dict[int, list[Span]] = {
            number: list(item.damaged) for number, item in self._listed.items()
        }
        self.identity, self.generation = self._origin()
        segments.last_number = max([segments.last_number, self._last_number, *self._found])

    @property
    def whole(self) -> bool:
        """Whether the manifest exists and is undamaged, so that an index may be compared with it."""
        return self._state is not None and self._problem is None

    @property
    def listed(self) -> list[ListedSegment]:
        """Segments that must exist."""
        return list(self._listed.values())

    def _origin(self) -> tuple[bytes, int]:
        """Return identity and last generation as far as they are known, otherwise a new identity."""
        if self._state is not None:
            return self._state.identity, self._state.generation
        headers = [header for number in self._found if (header := self._header(number)) is not None]
        own = [header for header in headers if header.format == FORMAT]
        if own:
            return own[-1].identity, max(header.generation for header in own)
        self._report.created = not self._found
        self._report.upgraded = bool(headers)
        return b"".join(self._disk.salt().to_bytes(4, "little") for _ in range(4)), 0

    def _header(self, number: int) -> SegmentHeader | None:
        file = self._disk.open(self._segments.path(number))
        header = read_segment_header(file.read(SegmentHeader(0, 0, 0).data_at, 0))
        file.close()
        return header

    # -- decisions about files ------------------------------------------------------------------

    def judge(self, number: int, header: SegmentHeader | None, empty: bool) -> tuple[SegmentVerdict, str]:
        """Decide on a file by its header. A non-empty reason means damage."""
        listed = self._listed.get(number)
        unused = number > self._last_number if self._state else number == self._found[-1]
        if header is None:
            if listed is None and empty:
                return SegmentVerdict.REMOVE, ""
            return SegmentVerdict.DAMAGED, "the header is damaged; the file is renamed to *.damaged"
        foreign = header.number != number or (header.format == FORMAT and header.identity != self.identity)
        if listed is not None:
            foreign = foreign or header.salt != listed.salt
        elif self._state is not None and header.format != FORMAT:
            foreign = True
        if foreign:
            return (
                SegmentVerdict.FOREIGN,
                "the segment is of another journal; the file is renamed to *.foreign",
            )
        if listed is not None or not self.whole:
            return SegmentVerdict.REPLAY, ""
        if not unused or empty:
            return SegmentVerdict.REMOVE, ""
        return SegmentVerdict.REPLAY, "the manifest does not list the segment"

    def length_of(self, number: int) -> int | None:
        """Return the length of a sealed segment; 0 if it may have a torn tail; None if the manifest does not
        list it."""
        listed = self._listed.get(number)
        if listed is not None:
            return listed.length
        return 0 if number == self._found[-1] else None

    def drop(self, path: str, start: int, end: int, reason: str) -> None:
        """Report damage to a file."""
        self._report.dropped.append(Dropped(path, start, end - start, reason))

    def drop_span(self, number: int, start: int, end: int, reason: str, *, proven: bool = True) -> bool:
        """Report damaged bytes of a segment; they count as damage unless an earlier start has reported
        them. Return whether the bytes are known to have been synced, as the first start that found the
        damage decided."""
        path, length = self._segments.path(number), end - start
        reported = self._reported.setdefault(number, [])
        known = next((was for was in reported if was[:2] == (start, length)), None)
        if known is not None:
            proven = known[2]
        else:
            reported.append((start, length, proven))
        self._report.dropped.append(Dropped(path, start, length, reason, known is None, proven))
        return proven

    def set_aside(self, path: str, verdict: SegmentVerdict) -> None:
        """Schedule the renaming of a file, so that it is neither read nor lost."""
        self._aside.append((path, f"{path}.{verdict.value}"))

    def remove(self, path: str) -> None:
        """Schedule the removal of a file whose creation or removal a crash has interrupted."""
        self._remove.append(path)

    # -- result ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Complete the report, durably begin a new generation, and then rename and remove files."""
        report, path = self._report, f"{self._directory}/{manifests.NAME}"
        if self._state is None and self._problem is None and not (report.created or report.upgraded):
            self.drop(path, 0, 0, "the manifest is missing")
        elif self._problem is not None:
            self.drop(path, 0, 0, f"the manifest is damaged: {self._problem}")
        for number in sorted(set(self._listed) - set(self._found)):
            self.drop(self._segments.path(number), 0, self._listed[number].length, MISSING)
        earlier = list(self._state.damage) if self._state else []
        next_state = self._next_state(earlier)
        for reason, proven in earlier:
            text = f"an earlier start reported damage: {reason}"
            report.dropped.append(Dropped(path, 0, 0, text, proven=proven))
        report.damaged = any(dropped.damage for dropped in report.dropped)
        report.damage_proven = any(dropped.damage and dropped.proven for dropped in report.dropped)
        report.identity, report.generation = self.identity.hex(), self.generation + 1
        self._manifest.begin(next_state)
        for source, target in self._aside:
            self._disk.rename(source, target)
        for unused in self._remove:
            self._disk.remove(unused)
        if self._aside or self._remove:
            self._disk.sync_directory(self._directory)

    def _next_state(self, earlier: list[tuple[str, bool]]) -> ManifestState:
        fresh = [
            (f"{dropped.path} at {dropped.offset}: {dropped.reason}", dropped.proven)
            for dropped in self._report.dropped
            if dropped.damage
        ]
        segments = [
            manifests.listed(item.number, item.salt, item.used_bytes, self._reported.get(item.number, []))
            for item in self._segments.by_number.values()
        ]
        return ManifestState(
            self.identity,
            self.generation + 1,
            self._segments.last_number,
            segments,
            manifests.bounded([*earlier, *fresh]),
        )
