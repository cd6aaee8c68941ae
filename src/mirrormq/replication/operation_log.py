"""The operations that somebody may still ask for, in order, as bytes."""

from __future__ import annotations

from collections.abc import Sequence


class OperationLog:
    """Operations `stable + 1` … `last`. Cut from the front when nobody needs them any more."""

    __slots__ = ("_base_bytes", "_cut", "_ends", "_operations", "last", "stable")

    def __init__(self, stable: int) -> None:
        self.stable = stable
        self.last = stable
        self._operations: list[bytes] = []
        """The first `_cut` of them are gone, but not yet taken out of the list."""
        self._ends: list[int] = []
        """For each of them, the bytes of all operations up to its end since the log began."""
        self._cut = 0
        self._base_bytes = 0
        """The bytes of all that was cut."""

    def append(self, operation: bytes) -> None:
        """The next operation."""
        self._operations.append(operation)
        self._ends.append((self._ends[-1] if self._ends else self._base_bytes) + len(operation))
        self.last += 1

    def extend(self, operations: Sequence[bytes]) -> None:
        """The next operations."""
        for operation in operations:
            self.append(operation)

    def after(self, number: int) -> list[bytes]:
        """All operations behind `number`, which is not below `stable`."""
        return self._operations[self._cut + number - self.stable :]

    def bytes_after(self, number: int) -> int:
        """The bytes of all operations behind `number`, of those that are still here."""
        at = self._cut + number - self.stable
        if not self._ends or number >= self.last:
            return 0
        return self._ends[-1] - (self._ends[at - 1] if at > self._cut else self._base_bytes)

    def cut(self, number: int) -> None:
        """Forget operations up to `number`."""
        count = min(number, self.last) - self.stable
        if count <= 0:
            return
        self._cut += count
        self.stable += count
        self._base_bytes = self._ends[self._cut - 1]
        if self._cut == len(self._operations):
            self._operations, self._ends, self._cut = [], [], 0
        elif self._cut > len(self._operations) // 2:
            del self._operations[: self._cut], self._ends[: self._cut]
            self._cut = 0
