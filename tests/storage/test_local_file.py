"""File of the operating system: buffers that are written without joining them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirrormq.storage.disk import UNJOINED_BYTES_MIN, VECTORS_MAX, LocalDisk

PARTS = [
    bytes([number % 251]) * (UNJOINED_BYTES_MIN if number % 3 else 7) for number in range(3 * VECTORS_MAX)
]


@pytest.mark.parametrize("accepted", [1.0, 0.4])
def test_parts_are_written_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: float
) -> None:
    """Also if the kernel accepts only a part of the buffers at once."""
    calls: list[int] = []

    def write_some(descriptor: int, buffers: Sequence[bytes], offset: int) -> int:
        calls.append(len(buffers))
        data = b"".join(buffers)
        return os.pwrite(descriptor, data[: max(1, int(accepted * len(data)))], offset)

    monkeypatch.setattr(os, "pwritev", write_some)
    disk = LocalDisk()
    file = disk.create(str(tmp_path / "file"))
    file.write_parts(PARTS, 5)
    whole = b"".join(PARTS)
    assert file.read(5 + len(whole) + 1, 0) == bytes(5) + whole
    assert disk.usage.written_bytes == len(whole)
    assert len(calls) > 1
    assert max(calls) <= VECTORS_MAX
