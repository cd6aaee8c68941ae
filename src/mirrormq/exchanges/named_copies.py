"""Named copies: queues that receive every message that another queue receives.

A queue that names a *source* (`x-copy-from`) gets every message routed to the source whose routing key
matches its pattern (`x-copy-routing-key`, with the wildcards of a topic exchange). A copy is one more target
of the message: a publisher's confirm waits for it as for the others. It gets a message once, also if a
binding leads to it as well. A copy may be the source of further copies. Each queue is visited once, hence
cycles end.

The patterns of all copies of one source are the bindings of an internal topic exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirrormq.exchanges.binding import QUEUE, Binding, to_queue
from mirrormq.exchanges.exchange import NO_PROPERTIES
from mirrormq.exchanges.topic import TopicExchange

EVERYTHING = "#"


def allow_any_copy(source: str, copy: str) -> bool:
    """Allow every queue to be a copy of every other."""
    return True


class NamedCopies:
    """Copies of the queues of one vhost, by name. A change invalidates routes."""

    def __init__(self, may_copy: Callable[[str, str], bool] = allow_any_copy) -> None:
        self.sources: dict[str, TopicExchange] = {}
        """By source, its copies. Empty while the feature is unused, which then costs nothing."""
        self._may_copy = may_copy
        self._by_copy: dict[str, tuple[str, Binding]] = {}

    def add(self, copy: str, source: str, pattern: str = EVERYTHING) -> None:
        """Route messages for `source` to `copy` too, whether or not these queues exist yet."""
        self.remove(copy)
        binding = to_queue(copy, pattern)
        self._by_copy[copy] = source, binding
        self.sources.setdefault(source, TopicExchange(source)).bind(binding)

    def remove(self, copy: str) -> None:
        """Stop copying to a queue that was deleted; ignore a queue that is not a copy."""
        found = self._by_copy.pop(copy, None)
        if found is None:
            return
        source, binding = found
        copies = self.sources[source]
        copies.unbind(binding)
        if copies.is_unused:
            del self.sources[source]

    def reached(self, names: Iterable[str], routing_key: str) -> tuple[str, ...]:
        """Return the sorted targets of a message for `names`: these queues, their copies, and transitively
        theirs."""
        found = set(names)
        remaining = list(found)
        while remaining:
            source = remaining.pop()
            copies = self.sources.get(source)
            if copies is None:
                continue
            for kind, name in copies.route(routing_key, {}, NO_PROPERTIES):
                assert kind == QUEUE
                if name not in found and self._may_copy(source, name):
                    found.add(name)
                    remaining.append(name)
        return tuple(sorted(found))
