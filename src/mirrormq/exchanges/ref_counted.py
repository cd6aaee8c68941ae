"""Destinations that several bindings may name: each comes up once, until its last binding goes."""

from __future__ import annotations

from mirrormq.exchanges.binding import Destination


class CountedDestinations(dict[Destination, int]):
    """Iterates over the destinations in the order in which they were first added."""

    __slots__ = ()

    def add(self, destination: Destination) -> None:
        """One more binding names this destination."""
        self[destination] = self.get(destination, 0) + 1

    def discard(self, destination: Destination) -> None:
        """One binding fewer names this destination."""
        count = self[destination] - 1
        if count:
            self[destination] = count
        else:
            del self[destination]
