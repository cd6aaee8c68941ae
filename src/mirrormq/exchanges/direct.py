"""Direct exchange: the routing key equals the binding's key."""

from __future__ import annotations

from collections.abc import Iterable

from mirrormq.exchanges.binding import Binding, CountedDestinations, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.fields import Table


class DirectExchange(Exchange):
    kind = "direct"
    by_every_key = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._by_key: dict[str, CountedDestinations] = {}

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        return self._by_key.get(routing_key, ())

    def _added(self, binding: Binding) -> None:
        destinations = self._by_key.get(binding.routing_key)
        if destinations is None:
            destinations = self._by_key[binding.routing_key] = CountedDestinations()
        destinations.add(binding.destination)

    def _removed(self, binding: Binding) -> None:
        destinations = self._by_key[binding.routing_key]
        destinations.discard(binding.destination)
        if not destinations:
            del self._by_key[binding.routing_key]
