"""x-random: one destination per message, chosen at random by an injected function."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.fields import Table

Choose = Callable[[int], int]
"""Function that, given n > 0, returns a number from 0 to n - 1."""


class RandomExchange(Exchange):
    kind = "x-random"
    cacheable = False
    repeats = False

    def __init__(self, name: str, choose: Choose) -> None:
        super().__init__(name)
        self._choose = choose
        self._choices: list[Destination] | None = []

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        choices = self._choices
        if choices is None:
            choices = self._choices = [binding.destination for binding in self._bindings]
        if not choices:
            return ()
        return (choices[self._choose(len(choices))],)

    def _added(self, binding: Binding) -> None:
        self._choices = None

    def _removed(self, binding: Binding) -> None:
        self._choices = None
