"""Operation log: operations that a ring member may still have to send again, in order, as bytes."""

from __future__ import annotations

from collections.abc import Sequence


class OperationLog:
    """Operations `stable + 1` … `last`. The log is cut from the front when no member needs them."""

    __slots__ = ("_base_bytes", "_cut", "_ends", "_operations", "last", "stable")

    def __init__(self, stable: int) -> None:
        self.stable = stable
        self.last = stable
        self._operations: list[bytes] = []
        """Operations. The first `_cut` of them are deleted, but still in the list."""
        self._ends: list[int] = []
        """Total bytes of all operations up to and including each of them, since the log began."""
        self._cut = 0
        self._base_bytes = 0
        """Total bytes of the deleted operations."""

    def append(self, operation: bytes) -> None:
        self._operations.append(operation)
        self._ends.append((self._ends[-1] if self._ends else self._base_bytes) + len(operation))
        self.last += 1

    def extend(self, operations: Sequence[bytes]) -> None:
        for operation in operations:
            self.append(operation)

    def after(self, number: int) -> list[bytes]:
        """Return all operations after `number`, which is not below `stable`."""
        return self._operations[self._cut + number - self.stable :]

    def bytes_after(self, number: int) -> int:
        """Return the bytes of all operations after `number` that are still in the log."""
        start = self._cut + number - self.stable
        if not self._ends or number >= self.last:
            return 0
        return self._ends[-1] - (self._ends[start - 1] if start > self._cut else self._base_bytes)

    def cut(self, number: int) -> None:
        """Delete operations up to `number`."""
        count = min(number, self.last) - self.stable
        if count <= 0:
            return
        self._cut += count
        self.stable += count
        self._base_bytes = self._ends[self._cut - 1]
        if self._cut == len(self._operations):
            self._operations, self._ends, self._cut = [], [], 0
        elif self._cut > len(self._operations) // 2:
            # Deleting from the front moves the rest of the list, so it waits until the list halves.
            del self._operations[: self._cut], self._ends[: self._cut]
            self._cut = 0
