"""Disk interface: the few operating system operations that storage is built on.

All of storage's assumptions about durability are stated here. `File.write` puts bytes where a later `read`
finds them; they survive a crash only after `File.sync`. A created, renamed or removed *name* survives only
after `Disk.sync_directory`. `simulated_disk.py` implements exactly these sentences.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from time import perf_counter
from typing import Final, Protocol

from mirrormq.storage.disk_stats import DiskStats

VECTORS_MAX: Final = 1024
"""Buffers of one pwritev: Linux's limit (IOV_MAX)."""

UNJOINED_BYTES_MIN: Final = 4096
"""Size from which a buffer of its own costs less than a copy."""


class File(Protocol):
    """Open file, read and written at given offsets."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data`, or raise OSError."""

    def write_parts(self, parts: Sequence[bytes], offset: int) -> None:
        """Write the parts one after the other, without joining large ones."""

    def read(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make everything written so far survive a crash."""

    def allocate(self, size: int) -> None:
        """Extend to `size` with zeros, and reserve the space if the file system can and has it. Less may
        suffice; the disk alarm stops publishers before a write fails."""

    def truncate(self, size: int) -> None:
        """Shorten the file to `size`."""

    def size(self) -> int:
        """Return the length in bytes."""

    def close(self) -> None:
        """Close the file."""


class Disk(Protocol):
    """Directory tree with files."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def create(self, path: str) -> File:
        """Create an empty file. Raise FileExistsError if the name exists."""

    def open(self, path: str) -> File:
        """Open an existing file. Raise FileNotFoundError if there is none."""

    def remove(self, path: str) -> None:
        """Remove a name."""

    def rename(self, source: str, target: str) -> None:
        """Rename `source` to `target` atomically, replacing an existing `target`."""

    def sync_directory(self, directory: str) -> None:
        """Make names created, renamed and removed so far survive a crash."""

    def salt(self) -> int:
        """Return 32 unpredictable bits."""


class LocalFile:
    """File of the operating system, by descriptor."""

    __slots__ = ("_descriptor", "_usage")

    def __init__(self, descriptor: int, usage: DiskStats) -> None:
        self._descriptor = descriptor
        self._usage = usage

    def write(self, data: bytes, offset: int) -> None:
        began_s = perf_counter()
        written = os.pwrite(self._descriptor, data, offset)
        while written < len(data):
            step = os.pwrite(self._descriptor, memoryview(data)[written:], offset + written)
            if step == 0:
                raise OSError(errno.EIO, "write made no progress")
            written += step
        usage = self._usage
        usage.writes += 1
        usage.written_bytes += len(data)
        usage.write_s += perf_counter() - began_s

    def write_parts(self, parts: Sequence[bytes], offset: int) -> None:
        began_s = perf_counter()
        usage = self._usage
        buffers = _joined_small(parts)
        for start in range(0, len(buffers), VECTORS_MAX):
            some = buffers[start : start + VECTORS_MAX]
            size = sum([len(part) for part in some])
            written = os.pwritev(self._descriptor, some, offset)
            if written < size:
                self.write(b"".join(some)[written:], offset + written)
            usage.written_bytes += written
            offset += size
        usage.writes += 1
        usage.write_s += perf_counter() - began_s

    def read(self, size: int, offset: int) -> bytes:
        began_s = perf_counter()
        data = self._read(size, offset)
        usage = self._usage
        usage.reads += 1
        usage.read_bytes += len(data)
        usage.read_s += perf_counter() - began_s
        return data

    def _read(self, size: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size:
            return data
        pieces = [data]
        missing = size - len(data)
        while missing and pieces[-1]:
            pieces.append(os.pread(self._descriptor, missing, offset + size - missing))
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def sync(self) -> None:
        began_s = perf_counter()
        os.fdatasync(self._descriptor)
        self._usage.synced(perf_counter() - began_s)

    def allocate(self, size: int) -> None:
        used = self.size()
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSPC):
                raise
            os.ftruncate(self._descriptor, used)  # releases blocks allocated before the disk was full
            os.ftruncate(self._descriptor, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


def _joined_small(parts: Sequence[bytes]) -> list[bytes]:
    """Return the parts with neighbouring small ones joined."""
    buffers: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) < UNJOINED_BYTES_MIN:
            small.append(part)
            continue
        if small:
            buffers.append(b"".join(small))
            small = []
        buffers.append(part)
    if small:
        buffers.append(b"".join(small))
    return buffers


class LocalDisk:
    """Disk of the operating system."""

    def __init__(self) -> None:
        self.usage = DiskStats()

    def make_directory(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(os.path.abspath(path))
        self.make_directory(parent)
        os.mkdir(path)
        self.sync_directory(parent)

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def create(self, path: str) -> File:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return LocalFile(os.open(path, flags, 0o640), self.usage)

    def open(self, path: str) -> File:
        return LocalFile(os.open(path, os.O_RDWR | os.O_CLOEXEC), self.usage)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def sync_directory(self, directory: str) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def salt(self) -> int:
        return int.from_bytes(os.urandom(4), "little")
