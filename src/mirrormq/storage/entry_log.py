"""A small append-only log beside the journal: entries of bytes, one after another.

One file, with the journal's header and record format; replacing its entries writes a new file and renames
it over the old one, so there is always exactly one whole history. A torn tail is cut off on `open`;
a damaged entry in the middle is dropped and reported, and those behind it are kept. Whatever was
dropped is still in a copy beside the log, for a person to look at.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrormq.errors import DamageError
from mirrormq.storage import journal_records
from mirrormq.storage.disk import Disk, File
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.record_search import find_record, valid_body, zeros_from
from mirrormq.storage.recovery_report import Dropped

NAME = "metadata.log"


class EntryLog:
    """Entries in their order, in a file of their own."""

    def __init__(self, disk: Disk, directory: str, name: str = NAME) -> None:
        self._disk = disk
        self._directory = directory
        self._name = name
        self._title = "the metadata log" if name == NAME else f"{directory}/{name}"
        self.path = f"{directory}/{name}"
        self._file: File | None = None
        self._end = 0
        self._salt = 0
        self._checksum: journal_records.Checksum = journal_records.no_checksum
        self._failure: str | None = None
        self.dropped: list[Dropped] = []
        """What `open` could not use."""
        self.entries = 0
        """Entries in the file."""

    def open(self) -> list[bytes]:
        """Everything that is in the log. Call once, first. Raises DamageError if the file's header is
        gone: starting with empty metadata would make the node forget its queues."""
        self._disk.make_directory(self._directory)
        names = self._disk.list(self._directory)
        if f"{self._name}.new" in names:
            self._disk.remove(f"{self.path}.new")
        if self._name not in names:
            self._replace([])
            return []
        file = self._disk.open(self.path)
        data = file.read(file.size(), 0)
        header = journal_records.read_file_header(data)
        checksum = journal_records.checksum_named(header[1]) if header is not None else None
        if header is None or checksum is None:
            file.close()
            raise DamageError(f"the header of {self.path} is damaged, so none of its entries can be believed")
        self._file, self._checksum, self._salt = file, checksum, header[2]
        found = self._scan(data)
        if self.dropped:
            self._keep_copy(data, f"{self._name}.damaged" in names)
        if self._end < len(data):
            file.truncate(self._end)
        file.sync()
        self.entries = len(found)
        return found

    def _scan(self, data: bytes) -> list[bytes]:
        found = []
        at = self._end = journal_records.DATA_AT
        while True:
            body = valid_body(self._checksum, self._salt, data, at)
            if body is not None:
                found.append(body[1:])
                at = self._end = at + journal_records.PREFIX_BYTES + len(body)
                continue
            if zeros_from(data, at):
                return found
            at = find_record(self._checksum, self._salt, data, self._end)
            if at < 0:
                torn = Dropped(self.path, self._end, len(data) - self._end, "torn by a crash", damage=False)
                self.dropped.append(torn)
                return found
            self.dropped.append(Dropped(self.path, self._end, at - self._end, "damaged"))

    def _keep_copy(self, data: bytes, replace: bool) -> None:
        path = f"{self.path}.damaged"
        if replace:
            self._disk.remove(path)
        copy = self._disk.create(path)
        copy.write(data, 0)
        copy.sync()
        copy.close()
        self._disk.sync_directory(self._directory)

    def append(self, entry: bytes, sync: bool) -> None:
        """Add an entry; with `sync` it (and all before it) survives a crash once this returns."""
        file = self._checked()
        record = journal_records.sealed(bytes((journal_records.ENTRY,)) + entry, self._checksum, self._salt)
        try:
            file.write(record, self._end)
            if sync:
                file.sync()
        except OSError as error:
            raise self._fail(error) from error
        self._end += len(record)
        self.entries += 1

    def first_entry(self) -> bytes:
        """Read the first entry again. Raises JournalFailed if the disk does not have it any more."""
        file = self._checked()
        try:
            head = file.read(journal_records.PREFIX_BYTES, journal_records.DATA_AT)
            length = int.from_bytes(head[:4], "little")
            data = head + file.read(length, journal_records.DATA_AT + journal_records.PREFIX_BYTES)
        except OSError as error:
            raise self._fail(error) from error
        body = valid_body(self._checksum, self._salt, data, 0)
        if body is None:
            raise self._fail(OSError("its first entry cannot be read back"))
        return body[1:]

    def replace(self, entries: Iterable[bytes]) -> None:
        """Replace everything by these entries, atomically and durably."""
        old = self._checked()
        try:
            self._replace(entries)
        except OSError as error:
            raise self._fail(error) from error
        old.close()

    def _replace(self, entries: Iterable[bytes]) -> None:
        name = journal_records.PREFERRED_CHECKSUM
        checksum, salt = journal_records.checksum_named(name), self._disk.salt()
        assert checksum is not None
        kind = bytes((journal_records.ENTRY,))
        sealed = [journal_records.sealed(kind + entry, checksum, salt) for entry in entries]
        data = journal_records.file_header(1, name, salt) + b"".join(sealed)
        file = self._disk.create(f"{self.path}.new")
        file.write(data, 0)
        file.sync()
        self._disk.rename(f"{self.path}.new", self.path)
        self._disk.sync_directory(self._directory)
        self._file, self._checksum, self._salt = file, checksum, salt
        self._end, self.entries = len(data), len(sealed)

    def close(self) -> None:
        """Sync and give the file back."""
        file = self._checked()
        try:
            file.sync()
        except OSError as error:
            raise self._fail(error) from error
        file.close()
        self._failure = f"{self._title} is closed"

    def _checked(self) -> File:
        if self._failure is not None:
            raise JournalFailed(self._failure)
        if self._file is None:
            raise ValueError(f"{self._title} is not open")
        return self._file

    def _fail(self, error: OSError) -> JournalFailed:
        self._failure = f"{self._title} cannot be written: {error}"
        return JournalFailed(self._failure)
