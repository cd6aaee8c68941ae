"""Confirms of one publishing channel: the number of settled messages, and the unsettled ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class ConfirmCounter:
    """Counter of settled messages without an object for each.

    Invariant: every delivery tag up to `floor` is settled, `floor` + 1 is not, and `_above` holds the settled
    ones beyond.
    """

    __slots__ = ("_above", "floor")

    def __init__(self) -> None:
        self.floor = 0
        self._above: set[int] = set()

    def settle(self, delivery_tag: int, multiple: bool) -> int:
        """Apply a confirm; return the number of messages that it newly settled."""
        above = self._above
        if multiple:
            count = max(0, delivery_tag - self.floor)
            if above:
                covered = {each for each in above if each <= delivery_tag}
                above -= covered
                count -= len(covered)
            self.floor = max(self.floor, delivery_tag)
        elif delivery_tag == self.floor + 1:
            self.floor, count = delivery_tag, 1
        elif delivery_tag <= self.floor or delivery_tag in above:
            return 0
        else:
            above.add(delivery_tag)
            count = 1
        # Restore the invariant: the floor absorbs the settled tags directly above it.
        while above and self.floor + 1 in above:
            self.floor += 1
            above.discard(self.floor)
        return count


class UnconfirmedMessages(Generic[Item]):
    """Unconfirmed messages, in the order of publishing."""

    __slots__ = ("_last_tag", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, Item] = {}
        self._last_tag = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Item) -> int:
        """Add a published message; return its delivery tag."""
        self._last_tag += 1
        self._waiting[self._last_tag] = item
        return self._last_tag

    def extend(self, items: list[Item]) -> None:
        """Add several published messages."""
        self._waiting.update(enumerate(items, self._last_tag + 1))
        self._last_tag += len(items)

    def settle(self, delivery_tag: int, multiple: bool) -> list[Item]:
        """Apply a confirm; return the messages that it settled, oldest first."""
        waiting = self._waiting
        if not multiple:
            return [waiting.pop(delivery_tag)] if delivery_tag in waiting else []
        if delivery_tag >= self._last_tag:
            settled = list(waiting.values())
            waiting.clear()
            return settled
        tags = []
        for tag in waiting:
            if tag > delivery_tag:
                break
            tags.append(tag)
        return [waiting.pop(tag) for tag in tags]

    def items(self) -> Iterable[Item]:
        """Return the unconfirmed messages, oldest first."""
        return self._waiting.values()

    def restart(self) -> list[Item]:
        """Renumber the unconfirmed messages for publishing on another channel; return them."""
        items = list(self._waiting.values())
        self._waiting, self._last_tag = {}, 0
        self.extend(items)
        return items

    def clear(self) -> None:
        """Drop all messages: the channel has ended and nothing is resent."""
        self._waiting, self._last_tag = {}, 0
