"""Pending requests to other nodes: each waits for the reply with its number, or for the loss of its peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class PendingRequests(Generic[Entry]):
    """Table of requests without a reply yet, by number."""

    __slots__ = ("_entries", "_number")

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def add(self, entry: Entry) -> int:
        """Record a request and return its number."""
        self._number += 1
        self._entries[self._number] = entry
        return self._number

    def put(self, number: int, entry: Entry) -> None:
        """Record a request under a number that the caller has drawn."""
        self._entries[number] = entry

    def get(self, number: int) -> Entry | None:
        """Return a request, which stays pending; None if it is unknown."""
        return self._entries.get(number)

    def take(self, number: int) -> Entry | None:
        """Remove and return the request that a reply belongs to; None if it is unknown."""
        return self._entries.pop(number, None)

    def take_if(self, lost: Callable[[Entry], bool]) -> list[Entry]:
        """Remove and return the requests that cannot be answered any more."""
        numbers = [number for number, entry in self._entries.items() if lost(entry)]
        return [self._entries.pop(number) for number in numbers]

    def take_all(self) -> list[Entry]:
        """Remove and return all requests."""
        entries, self._entries = list(self._entries.values()), {}
        return entries
