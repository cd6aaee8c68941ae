"""Files of an Iceberg table's metadata that are on disk when their transaction commits.

Spark's next batch settles the messages of the one before. After a power cut the table must not refer to
metadata that was never written.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class SyncedFile(io.FileIO):
    """File whose content and name are on disk after `close`."""

    def __init__(self, path: Path, mode: str) -> None:
        self._directory = path.parent
        super().__init__(path, mode)

    def close(self) -> None:
        if self.closed:
            return
        os.fsync(self.fileno())
        super().close()
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class SyncedOutput(PyArrowFile):  # type: ignore[misc]
    """Local file to be written."""

    def create(self, overwrite: bool = False) -> io.BufferedWriter:
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return io.BufferedWriter(SyncedFile(path, "w" if overwrite else "x"))


class SyncedFiles(PyArrowFileIO):  # type: ignore[misc]
    """Local files of a table; the catalogue's property `py-io-impl` names this class."""

    def new_output(self, location: str) -> SyncedOutput:
        _, _, path = self.parse_location(location, self.properties)
        return SyncedOutput(location=location, path=path, fs=self.fs_by_scheme("file", ""))
