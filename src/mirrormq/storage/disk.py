"""The seam between storage and the operating system: the few file operations storage is built on.

Everything storage believes about durability is said here. `File.write` puts bytes where a later
`read` finds them; they survive a crash only after `File.sync`. A created, renamed or removed *name*
survives only after `Disk.sync_directory`. `simulated_disk.py` takes these sentences at their word.
"""

from __future__ import annotations

import errno
import os
from time import perf_counter
from typing import Protocol

from mirrormq.storage.disk_stats import DiskStats


class File(Protocol):
    """An open file, read and written at given offsets."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data`, or raise OSError."""

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def sync(self) -> None:
        """Everything written so far survives a crash once this returns."""

    def allocate(self, size: int) -> None:
        """Extend to `size` with zeros, with the space reserved if the file system can and has it: less may
        do, and it is for the disk alarm to stop publishers before a write fails."""

    def truncate(self, size: int) -> None:
        """Cut to `size`."""

    def size(self) -> int:
        """Length in bytes."""

    def close(self) -> None:
        """Give the handle back."""


class Disk(Protocol):
    """A directory tree."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def create(self, path: str) -> File:
        """A new empty file; FileExistsError if there is one."""

    def open(self, path: str) -> File:
        """An existing file; FileNotFoundError if there is none."""

    def remove(self, path: str) -> None:
        """Remove a name."""

    def rename(self, source: str, target: str) -> None:
        """Atomically give `source` the name `target`, replacing what had it."""

    def sync_directory(self, directory: str) -> None:
        """Names created, renamed and removed so far survive a crash once this returns."""

    def salt(self) -> int:
        """32 bits nobody can guess."""


class LocalFile:
    """A file descriptor."""

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
            os.ftruncate(self._descriptor, used)  # gives back what was got before the disk was full
            os.ftruncate(self._descriptor, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


class LocalDisk:
    """The real thing."""

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
