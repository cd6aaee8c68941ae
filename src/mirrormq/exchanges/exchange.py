"""What every exchange type has in common: a name, bindings in their order, and a way to route.

A type overrides `route` and, if it keeps an index, `_added` and `_removed`. The class attributes
tell the router how much of a message the type looks at, so that nothing else is decoded:

    by_every_key      a message with CC or BCC keys is routed once per key (direct, topic); the
                      other types look at a message once and see its first key only
    needs_headers     `route` reads the headers table
    needs_properties  `route` reads another property (consistent hashing by `message_id`, say)
    cacheable         the result depends on the routing key alone and changes only with bindings
    repeats           equal messages always go the same way
    keeps_messages    `on_publish` wants each message that passes; `on_bind` gives some back
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar

from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.wire.fields import Table

Properties = Mapping[str, str | int]
"""Those of `correlation_id`, `message_id` and `timestamp` that the message has."""

NO_PROPERTIES: Properties = MappingProxyType({})


class Exchange:
    """One exchange. Durability, arguments and policies are the metadata's business, not ours."""

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
        """Messages that clients have published to it, for statistics."""
        self.published_out = 0
        """The same for each queue that they reached."""
        self._bindings: dict[Binding, None] = {}

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False if it was there already."""
        if binding in self._bindings:
            return False
        self._added(binding)
        self._bindings[binding] = None
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; False if there was none."""
        if binding not in self._bindings:
            return False
        del self._bindings[binding]
        self._removed(binding)
        return True

    def bindings(self) -> list[Binding]:
        """All bindings, in order of creation."""
        return list(self._bindings)

    @property
    def is_unused(self) -> bool:
        """Nothing is bound to it: an auto-delete exchange goes when this becomes true."""
        return not self._bindings

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        """Where a message goes; a destination may come up more than once."""
        raise NotImplementedError

    def on_publish(self, message: object, headers: Table) -> None:
        """A message has passed; asked of types with `keeps_messages` only."""

    def on_bind(self, binding: Binding) -> list[object]:
        """Messages to hand to a new destination, in this order."""
        return []

    def _added(self, binding: Binding) -> None:
        """A binding is about to be added; raising keeps it out."""

    def _removed(self, binding: Binding) -> None:
        """A binding has been removed."""
