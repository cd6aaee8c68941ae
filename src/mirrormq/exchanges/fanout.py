"""Fanout exchange: every destination gets every message."""

from __future__ import annotations

from collections.abc import Iterable

from mirrormq.exchanges.binding import Binding, CountedDestinations, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.fields import Table


class FanoutExchange(Exchange):
    kind = "fanout"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._destinations = CountedDestinations()

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        return self._destinations

    def _added(self, binding: Binding) -> None:
        self._destinations.add(binding.destination)

    def _removed(self, binding: Binding) -> None:
        self._destinations.discard(binding.destination)
