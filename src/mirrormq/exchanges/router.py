"""Router of one vhost: the exchanges, and the traversal of a message from exchange to queues.

The traversal starts at the exchange of the publish and follows exchange-to-exchange bindings. An exchange
where nothing matches passes the message to its alternate exchange. Every exchange is visited once, hence
cycles end, and every queue is reached once. The default exchange ("") has no bindings: a key leads to the
queue of that name.

Routes are cached per (exchange, routing key) if all visited exchanges decide by the routing key alone. Any
change to exchanges, bindings or alternates clears the cache and raises `version`. Other caches compare
versions; the publishing code keeps one route per basic.publish payload, where `may_remember` allows it.
Callers must therefore change bindings through the router, and call `invalidate` when a queue is declared or
deleted. Named copies of the reached queues (`named_copies`) are added last, and cached with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from mirrormq.exchanges.binding import EXCHANGE, QUEUE, Binding, CountedDestinations, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.exchanges.named_copies import NamedCopies
from mirrormq.wire.fields import Table

DEFAULT_EXCHANGE = ""

CACHE_ENTRIES_MAX = 16_384
"""Cached routes. Publishers use few keys or an unbounded number: the cache is ample for the first (about 4 MB
when full), and no size would do for the second. A full cache is cleared."""

NO_HEADERS: Table = {}


def no_headers() -> Table:
    """Return the headers of a message without a headers table."""
    return NO_HEADERS


def no_properties() -> Properties:
    """Return the properties for callers that have none."""
    return NO_PROPERTIES


class Router:
    """Routing table of one vhost."""

    def __init__(self, queues: Container[str], copies: NamedCopies | None = None) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.copies = copies or NamedCopies()
        self.alternate: dict[str, str] = {}
        """Exchange → alternate exchange, by name; `set_alternate` changes it."""
        self.version = 0
        """Number that grows whenever a cached route may be stale."""
        self._queues = queues
        self._cache: dict[tuple[str, str], tuple[str, ...]] = {}
        self._may_remember: dict[str, bool] = {}
        self._by_destination: dict[Destination, dict[tuple[str, Binding], None]] = {}
        self._exchanges_behind: dict[str, CountedDestinations] = {}
        """By exchange, the exchanges that are bound to it."""

    def add(self, exchange: Exchange) -> None:
        """Add an exchange without bindings."""
        self.exchanges[exchange.name] = exchange
        self.invalidate()

    def remove(self, name: str) -> None:
        """Remove an exchange with the bindings that start or end there."""
        exchange = self.exchanges.pop(name)
        for binding in exchange.bindings():
            self._forget(name, binding)
        for source, binding in self.bindings_to(Destination(EXCHANGE, name)):
            self.unbind(source, binding)
        self.alternate.pop(name, None)
        self.invalidate()

    def bind(self, source: str, binding: Binding) -> bool:
        """Add a binding to the exchange `source`; return False if it exists."""
        if not self.exchanges[source].bind(binding):
            return False
        self._by_destination.setdefault(binding.destination, {})[source, binding] = None
        if binding.destination.kind == EXCHANGE:
            self._exchanges_behind.setdefault(source, CountedDestinations()).add(binding.destination)
        self.invalidate()
        return True

    def unbind(self, source: str, binding: Binding) -> bool:
        """Remove a binding from the exchange `source`; return False if it does not exist."""
        exchange = self.exchanges.get(source)
        if exchange is None or not exchange.unbind(binding):
            return False
        self._forget(source, binding)
        self.invalidate()
        return True

    def bindings_to(self, destination: Destination) -> list[tuple[str, Binding]]:
        """Return all (source exchange, binding) pairs that lead to a queue or an exchange."""
        return list(self._by_destination.get(destination, ()))

    def set_alternate(self, name: str, alternate: str | None) -> None:
        """Set or remove the alternate exchange of an exchange."""
        if alternate is None:
            self.alternate.pop(name, None)
        else:
            self.alternate[name] = alternate
        self.invalidate()

    def invalidate(self) -> None:
        """Drop cached routes after a change of anything that routes depend on."""
        self.version += 1
        self._cache.clear()
        self._may_remember.clear()

    def route(
        self,
        exchange: str,
        keys: Sequence[str],
        headers: Callable[[], Table] = no_headers,
        properties: Callable[[], Properties] = no_properties,
        message: object = None,
    ) -> tuple[str, ...]:
        """Return the target queues of a message, sorted. The first key is the routing key, others are CC and
        BCC.

        `headers` and `properties` are called only if a visited exchange reads them. Exchanges that keep
        messages keep `message`. Raises KeyError if the exchange does not exist.
        """
        if len(keys) == 1:
            queues = self._cache.get((exchange, keys[0]))
            if queues is not None:
                return queues
        if exchange == DEFAULT_EXCHANGE:
            queues = self._by_queue_name(keys)
            return self.copies.reached(queues, keys[0]) if self.copies.sources else queues
        start = self.exchanges[exchange]
        if len(keys) == 1 and self._leads_to_queues_only(start):
            found = start.route(
                keys[0],
                headers() if start.needs_headers else NO_HEADERS,
                properties() if start.needs_properties else NO_PROPERTIES,
            )
            queues, cacheable = tuple(sorted({name for _, name in found})), start.cacheable
        else:
            walk = _Walk(self, keys, headers, properties, message)
            queues = walk.run(start)
            cacheable = walk.cacheable
        if self.copies.sources:
            queues = self.copies.reached(queues, keys[0])
        # CC and BCC keys are per message: only a route of the routing key alone is worth caching.
        if cacheable and len(keys) == 1:
            if len(self._cache) >= CACHE_ENTRIES_MAX:
                self._cache.clear()
            self._cache[exchange, keys[0]] = queues
        return queues

    def _leads_to_queues_only(self, exchange: Exchange) -> bool:
        """Whether no other exchange is reached from this one, and it keeps no messages."""
        name = exchange.name
        return not (exchange.keeps_messages or name in self._exchanges_behind or name in self.alternate)

    def may_remember(self, exchange: str) -> bool:
        """Whether routes from this exchange stay the same, for a routing key, while `version` does.

        True if every exchange reachable from here decides by routing keys alone.
        """
        stable = self._may_remember.get(exchange)
        if stable is None:
            stable = self._may_remember[exchange] = all(each.cacheable for each in self._reachable(exchange))
        return stable

    def routes_repeat(self, exchange: str) -> bool:
        """Whether equal messages always take the same route from here, and no exchange keeps them.

        Weaker than `may_remember`: headers and properties may decide, as long as nothing else does.
        """
        return all(each.repeats and not each.keeps_messages for each in self._reachable(exchange))

    def _reachable(self, name: str) -> list[Exchange]:
        found: dict[str, Exchange] = {}
        remaining = [name]
        while remaining:
            name = remaining.pop()
            exchange = self.exchanges.get(name)
            if exchange is None or name in found:
                continue
            found[name] = exchange
            if name in self.alternate:
                remaining.append(self.alternate[name])
            remaining.extend(each.name for each in self._exchanges_behind.get(name, ()))
        return list(found.values())

    def _by_queue_name(self, keys: Sequence[str]) -> tuple[str, ...]:
        queues = self._queues
        if len(keys) == 1:
            return (keys[0],) if keys[0] in queues else ()
        return tuple(sorted({key for key in keys if key in queues}))

    def _forget(self, source: str, binding: Binding) -> None:
        sources = self._by_destination[binding.destination]
        del sources[source, binding]
        if not sources:
            del self._by_destination[binding.destination]
        if binding.destination.kind == EXCHANGE:
            behind = self._exchanges_behind[source]
            behind.discard(binding.destination)
            if not behind:
                del self._exchanges_behind[source]


class _Walk:
    """Traversal of one message through the exchanges."""

    __slots__ = ("_headers", "_keys", "_message", "_properties", "_router", "cacheable")

    def __init__(
        self,
        router: Router,
        keys: Sequence[str],
        headers: Callable[[], Table],
        properties: Callable[[], Properties],
        message: object,
    ) -> None:
        self._router = router
        self._keys = keys
        self._headers = headers
        self._properties = properties
        self._message = message
        self.cacheable = True
        """Whether every visited exchange decided by the routing key alone."""

    def run(self, start: Exchange) -> tuple[str, ...]:
        exchanges = self._router.exchanges
        queues: set[str] = set()
        seen = {start.name}
        remaining = [start]
        while remaining:
            exchange = remaining.pop()
            destinations = self._visit(exchange)
            if not destinations and exchange.name in self._router.alternate:
                destinations = {Destination(EXCHANGE, self._router.alternate[exchange.name])}
            for kind, name in destinations:
                if kind == QUEUE:
                    queues.add(name)
                # An alternate exchange need not exist: RabbitMQ does not check it either.
                elif name not in seen and name in exchanges:
                    seen.add(name)
                    remaining.append(exchanges[name])
        return tuple(sorted(queues))

    def _visit(self, exchange: Exchange) -> set[Destination]:
        self.cacheable = self.cacheable and exchange.cacheable
        headers = self._headers() if exchange.needs_headers else NO_HEADERS
        properties = self._properties() if exchange.needs_properties else NO_PROPERTIES
        if exchange.keeps_messages and self._message is not None:
            exchange.on_publish(self._message, headers)
        keys = self._keys if exchange.by_every_key else self._keys[:1]
        return {each for key in keys for each in exchange.route(key, headers, properties)}
