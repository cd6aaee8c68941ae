"""x-modulus-hash: one destination per message, selected by a hash of the routing key modulo the bindings.

The bindings are numbered in a fixed order: every node picks the same one. Adding or removing a binding moves
most keys; x-consistent-hash avoids that.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.fields import Table


class ModulusHashExchange(Exchange):
    kind = "x-modulus-hash"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._numbered: list[Destination] | None = []

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        numbered = self._numbered
        if numbered is None:
            in_order = sorted(self._bindings, key=lambda each: (each.routing_key, *each))
            numbered = self._numbered = [binding.destination for binding in in_order]
        if not numbered:
            return ()
        return (numbered[crc32(routing_key.encode("utf-8", "surrogateescape")) % len(numbered)],)

    def _added(self, binding: Binding) -> None:
        self._numbered = None

    def _removed(self, binding: Binding) -> None:
        self._numbered = None
