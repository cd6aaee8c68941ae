"""Reference-counted destinations: several bindings may name one; it leaves with its last binding."""

from __future__ import annotations

from mirrormq.exchanges.binding import Destination


class CountedDestinations(dict[Destination, int]):
    """Destinations with their number of bindings, in the order in which they were first added."""

    __slots__ = ()

    def add(self, destination: Destination) -> None:
        """Count one more binding to this destination."""
        self[destination] = self.get(destination, 0) + 1

    def discard(self, destination: Destination) -> None:
        """Count one binding fewer to this destination."""
        count = self[destination] - 1
        if count:
            self[destination] = count
        else:
            del self[destination]
