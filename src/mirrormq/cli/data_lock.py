"""Lock of a data directory: one node per directory. The system releases the lock when the process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirrormq.errors import UnavailableError, start_error


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold DIRECTORY/lock, or raise an error that names its holder."""
    path = directory / "lock"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise start_error(f"Cannot use the data directory {directory}: {error.strerror}.", error) from error
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "another process"
            raise UnavailableError(
                f"The data directory {directory} is in use by {holder}: "
                "stop that node or choose another --data."
            ) from None
        file.truncate()
        file.write(f"process {os.getpid()}")
        file.flush()
        yield
