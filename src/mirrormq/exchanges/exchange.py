"""Base class of exchange types: name, ordered bindings, and routing.

A type overrides `route` and, if it keeps an index, `_added` and `_removed`. The class attributes
tell the router which parts of a message the type reads; the router decodes no others:

    by_every_key      a message with CC or BCC keys is routed once per key (direct, topic); the
                      other types route a message once, by its first key
    needs_headers     `route` reads the headers table
    needs_properties  `route` reads another property (consistent hashing by `message_id`)
    cacheable         the result depends on the routing key alone and changes only with bindings
    repeats           equal messages always go to the same destinations
    keeps_messages    `on_publish` gets each routed message; `on_bind` returns kept ones
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar

from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.wire.fields import Table

Properties = Mapping[str, str | int]
"""Routing-relevant properties that the message has: `correlation_id`, `message_id`, `timestamp`."""

NO_PROPERTIES: Properties = MappingProxyType({})


class Exchange:
    """Exchange of a vhost. The metadata holds durability, arguments and policies."""

    kind: ClassVar[str] = ""
    by_every_key: ClassVar[bool] = False
    keeps_messages: ClassVar[bool] = False
    needs_headers: bool = False
    needs_properties: bool = False
    cacheable: bool = True
    repeats: bool = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.published_in = 0
        """Messages that clients published to this exchange, for statistics."""
        self.published_out = 0
        """Messages routed from this exchange, counted once per reached queue."""
        self._bindings: dict[Binding, None] = {}

    def bind(self, binding: Binding) -> bool:
        """Add a binding; return False if it exists."""
        if binding in self._bindings:
            return False
        self._added(binding)
        self._bindings[binding] = None
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; return False if it does not exist."""
        if binding not in self._bindings:
            return False
        del self._bindings[binding]
        self._removed(binding)
        return True

    def bindings(self) -> list[Binding]:
        """Return all bindings, in order of creation."""
        return list(self._bindings)

    @property
    def is_unused(self) -> bool:
        """Whether the exchange has no bindings; an auto-delete exchange is then deleted."""
        return not self._bindings

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        """Return the destinations of a message; a destination may occur more than once."""
        raise NotImplementedError

    def on_publish(self, message: object, headers: Table) -> None:
        """Keep a routed message; the router calls it for types with `keeps_messages` only."""

    def on_bind(self, binding: Binding) -> list[object]:
        """Return kept messages for a new destination, in order of delivery."""
        return []

    def _added(self, binding: Binding) -> None:
        """Index a binding that is about to be added; raise to refuse it."""

    def _removed(self, binding: Binding) -> None:
        """Remove a binding from the index."""
