"""Small append-only log beside the journal: byte entries in order.

The log is one file with the journal's header and record format. Replacing the entries writes a new file
and renames it over the old one, so that exactly one complete history exists at any time. `open` cuts off a
torn tail. It drops and reports a damaged entry in the middle, and keeps the entries after it. Dropped
bytes remain in a copy beside the log, for the operator to inspect.
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
    """Ordered entries in one file."""

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
        """Parts of the file that `open` could not use."""
        self.entries = 0
        """Number of entries in the file."""

    def open(self) -> list[bytes]:
        """Return all entries. Call once, first. Raise DamageError if the file's header is lost: with empty
        metadata the node would forget its queues."""
        self._disk.make_directory(self._directory)
        names = self._disk.list(self._directory)
        if f"{self._name}.new" in names:
            # A crash came before the rename: the old file is the valid one.
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
            raise DamageError(f"the header of {self.path} is damaged, so none of its entries can be trusted")
        self._file, self._checksum, self._salt = file, checksum, header[2]
        entries = self._scan(data)
        if self.dropped:
            self._keep_copy(data, f"{self._name}.damaged" in names)
        if self._end < len(data):
            file.truncate(self._end)
        file.sync()
        self.entries = len(entries)
        return entries

    def _scan(self, data: bytes) -> list[bytes]:
        entries = []
        offset = self._end = journal_records.DATA_AT
        while True:
            body = valid_body(self._checksum, self._salt, data, offset)
            if body is not None:
                entries.append(body[1:])
                offset = self._end = offset + journal_records.PREFIX_BYTES + len(body)
                continue
            if zeros_from(data, offset):
                return entries
            offset = find_record(self._checksum, self._salt, data, self._end)
            if offset < 0:
                torn = Dropped(self.path, self._end, len(data) - self._end, "torn by a crash", damage=False)
                self.dropped.append(torn)
                return entries
            self.dropped.append(Dropped(self.path, self._end, offset - self._end, "damaged"))

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
        """Append an entry. With `sync`, this entry and all before it survive a crash once this returns."""
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
        """Read the first entry again. Raise JournalFailed if the disk no longer has it."""
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
        """Replace all entries atomically and durably."""
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
        """Sync and close the file."""
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
