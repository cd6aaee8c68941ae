"""Digest of a partition's rows: equal for the same rows in the same order, however Arrow batches cut them.

Each buffer of each column has its own hash, fed batch by batch. Values of null rows do not count.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from hashlib import blake2b

DIGEST_BYTES = 16

TEXTS = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)


class RowsDigest:
    """Digest of record batches of one schema. `seed` covers everything else that the messages depend on."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._hashes: dict[str, blake2b] = {}
        self.rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._array(name, column)
        self.rows += batch.num_rows

    def hexdigest(self) -> str:
        whole = hashlib.blake2b(f"{self._seed}\0{self.rows}".encode(), digest_size=DIGEST_BYTES)
        for name in sorted(self._hashes):
            whole.update(f"\0{name}\0".encode() + self._hashes[name].digest())
        return whole.hexdigest()

    def _array(self, path: str, array: pa.Array) -> None:
        self._feed(f"{path}:valid", array.is_valid().cast(pa.uint8()))
        kind = array.type
        if pa.types.is_struct(kind):
            for field, child in zip(kind, array.flatten(), strict=True):
                self._array(f"{path}.{field.name}", child)
        elif pa.types.is_map(kind):
            offsets = array.offsets.to_numpy()
            self._bytes(f"{path}:sizes", np.diff(offsets))
            first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
            self._array(f"{path}.key", array.keys.slice(first, count))
            self._array(f"{path}.value", array.items.slice(first, count))
        elif any(is_kind(kind) for is_kind in TEXTS):
            self._texts(path, array.cast(pa.large_binary()).fill_null(b""))
        else:
            self._feed(path, array.cast(pa.int64()).fill_null(0))

    def _texts(self, path: str, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        self._bytes(f"{path}:sizes", np.diff(places))
        if data is not None and len(places):
            self._hash(path).update(memoryview(data)[places[0] : places[-1]])

    def _feed(self, path: str, array: pa.Array) -> None:
        self._bytes(path, array.to_numpy(zero_copy_only=False))

    def _bytes(self, path: str, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
        self._hash(path).update(np.ascontiguousarray(values).tobytes())

    def _hash(self, path: str) -> blake2b:
        found = self._hashes.get(path)
        if found is None:
            found = self._hashes[path] = hashlib.blake2b(digest_size=DIGEST_BYTES)
        return found
