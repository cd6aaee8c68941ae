"""Files of a backup: a manifest, the metadata snapshot, and one file of message batches per queue.

    manifest.json       version, id, time, cluster; per queue: file, count, bytes, digest
    metadata.snapshot   the metadata snapshot as the cluster sent it
    queues/000001       batches of one queue (`ranges.range_batch`), each behind its length and checksum

The manifest is written last. A directory without one is an interrupted backup and cannot be restored.

A digest is the SHA-256 of all messages of a queue in order: exchange, routing key, properties and body, each
behind its length. It holds for both clusters, because it does not cover sequences.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO

import msgspec

from mirrormq.ranges.backup_protocol import QueueCut
from mirrormq.ranges.range_batch import BatchError, BatchRow, RangeBatch
from mirrormq.sequences.spans import Span, unpack

VERSION = 1
MANIFEST = "manifest.json"
METADATA = "metadata.snapshot"
QUEUES = "queues"

PREFIX = Struct("<II")
"""Length and CRC-32 of a batch."""
LENGTHS = Struct("<IIII")
"""Lengths of exchange, routing key, properties and body in a digest."""


class BackupError(Exception):
    """Backup or restore that cannot go on; one sentence that says what to do."""


class QueueEntry(msgspec.Struct, frozen=True):
    """Queue in the manifest."""

    vhost: str
    name: str
    file: str
    messages: int
    body_bytes: int
    digest: str
    cut: bytes
    """Encoded publish ids and leases (`ranges.backup_protocol.QueueCut`)."""
    damaged: int = 0
    """Number of messages that are absent, because no reachable node had a good copy of their records."""

    @property
    def title(self) -> str:
        """Name for messages to the user."""
        return f"queue '{self.name}' in vhost '{self.vhost}'"


class Manifest(msgspec.Struct, frozen=True):
    """Contents of a backup."""

    version: int
    id: str
    """Random id of the backup."""
    created: str
    """Start of the backup, UTC."""
    metadata_digest: str
    queues: list[QueueEntry]

    @property
    def incomplete(self) -> list[QueueEntry]:
        """Queues with damaged messages, which are absent."""
        return [entry for entry in self.queues if entry.damaged]


class MessageDigest:
    """Count, size and digest of messages in order."""

    def __init__(self) -> None:
        self.count = 0
        self.body_bytes = 0
        self._hash = hashlib.sha256()

    def add(self, row: BatchRow) -> None:
        """Add the next message."""
        exchange, routing_key, properties = row.envelope
        lengths = LENGTHS.pack(len(exchange), len(routing_key), len(properties), len(row.body))
        self._hash.update(b"".join((lengths, exchange, routing_key, properties, row.body)))
        self.count += 1
        self.body_bytes += len(row.body)

    def hex(self) -> str:
        return self._hash.hexdigest()


class UnsettledRows:
    """Filter for rows that no reader of a lease has settled. Rows come in ascending order."""

    def __init__(self, cut: QueueCut) -> None:
        self._settled: list[Span] = list(reversed(unpack(cut.settled)))

    def of(self, rows: Iterable[BatchRow]) -> Iterator[BatchRow]:
        """Yield the unsettled ones of these rows."""
        settled = self._settled
        for row in rows:
            while settled and sum(settled[-1]) <= row.sequence:
                settled.pop()
            if not settled or row.sequence < settled[-1][0]:
                yield row


class BackupWriter:
    """Directory of a backup that is being written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = sorted(os.listdir(directory))
            if found:
                kind = "a backup" if MANIFEST in found else "files, perhaps of an interrupted backup"
                raise BackupError(f"{directory} holds {kind}; name an empty directory, or delete it first")
            (directory / QUEUES).mkdir(mode=0o700)
        except OSError as error:
            raise BackupError(f"{directory} cannot be used: {error.strerror}") from None

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file durably."""
        with self.open(name) as file:
            file.write(data)
            self.sync(file)

    def sync(self, file: BinaryIO) -> None:
        """Force a file to disk."""
        file.flush()
        os.fsync(file.fileno())

    def open(self, name: str) -> BinaryIO:
        """Create a file that only the owner may read: it holds messages or password hashes."""
        descriptor = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        return os.fdopen(descriptor, "wb")

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, which makes the backup complete."""
        # The json module writes names that are not UTF-8, too (`surrogateescape`).
        text = json.dumps(msgspec.to_builtins(manifest), indent=1)
        self.write(f"{MANIFEST}.new", text.encode("ascii"))
        (self.directory / f"{MANIFEST}.new").rename(self.directory / MANIFEST)


def write_batch(file: BinaryIO, batch: bytes | bytearray) -> None:
    """Append a batch to the file of a queue."""
    file.write(PREFIX.pack(len(batch), zlib.crc32(batch)))
    file.write(batch)


class BackupReader:
    """Complete backup."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            self.manifest = msgspec.convert(json.loads((directory / MANIFEST).read_bytes()), Manifest)
            self.metadata = (directory / METADATA).read_bytes()
        except FileNotFoundError as error:
            name = Path(error.filename).name
            raise BackupError(f"{directory} is no complete backup: {name} is missing") from None
        except (OSError, ValueError) as error:
            raise BackupError(f"the backup in {directory} cannot be read: {error}") from None
        if self.manifest.version != VERSION:
            version = self.manifest.version
            raise BackupError(f"{directory} has format {version}, this program reads format {VERSION}")
        if hashlib.sha256(self.metadata).hexdigest() != self.manifest.metadata_digest:
            raise BackupError(f"{directory / METADATA} is damaged: its digest differs from the manifest's")

    def rows(self, entry: QueueEntry, cut: QueueCut) -> Iterator[BatchRow]:
        """Yield the messages of a queue in order; raise BackupError at the end if they are not those of the
        manifest."""
        unsettled, digest = UnsettledRows(cut), MessageDigest()
        for batch in self._batches(entry):
            for row in unsettled.of(batch):
                digest.add(row)
                yield row
        if (digest.count, digest.hex()) != (entry.messages, entry.digest):
            raise self._damaged(entry)

    def _batches(self, entry: QueueEntry) -> Iterator[RangeBatch]:
        try:
            with (self.directory / entry.file).open("rb") as file:
                while prefix := file.read(PREFIX.size):
                    if len(prefix) < PREFIX.size:
                        raise self._damaged(entry)
                    length, check = PREFIX.unpack(prefix)
                    data = file.read(length)
                    if len(data) < length or zlib.crc32(data) != check:
                        raise self._damaged(entry)
                    yield RangeBatch(data)
        except (OSError, BatchError) as error:
            raise BackupError(f"{self.directory / entry.file} cannot be read: {error}") from None

    def _damaged(self, entry: QueueEntry) -> BackupError:
        return BackupError(f"{self.directory / entry.file} ({entry.title}) is damaged; use another backup")
