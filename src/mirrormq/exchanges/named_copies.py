"""Named copies: a queue that is sent whatever another one is sent.

A queue that names a *source* (`x-copy-from`) is on every way that leads to the source, if the message's
routing key matches its pattern (`x-copy-routing-key`, in the words of a topic exchange). So a copy is one
more queue that a message is routed to: a publisher's confirm waits for it like for the others, and it gets a
message once, also if a binding leads there as well. A copy may be the source of further copies; each
queue is looked at once, so circles end.

The patterns of all copies of one source are the bindings of a topic exchange that nobody can see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirrormq.exchanges.binding import QUEUE, Binding, to_queue
from mirrormq.exchanges.exchange import NO_PROPERTIES
from mirrormq.exchanges.topic import TopicExchange

EVERYTHING = "#"


def anything_goes(source: str, copy: str) -> bool:
    """Every queue may be a copy of every other."""
    return True


class NamedCopies:
    """Which queues of one vhost are copies of which, by name. Their routes change with it."""

    def __init__(self, may_copy: Callable[[str, str], bool] = anything_goes) -> None:
        self.sources: dict[str, TopicExchange] = {}
        """By source, its copies. Empty as long as nobody makes use of this, which costs nothing then."""
        self._may_copy = may_copy
        self._by_copy: dict[str, tuple[str, Binding]] = {}

    def add(self, copy: str, source: str, pattern: str = EVERYTHING) -> None:
        """From now on `copy` gets what `source` gets, whether or not there is such a queue yet."""
        self.remove(copy)
        binding = to_queue(copy, pattern)
        self._by_copy[copy] = source, binding
        self.sources.setdefault(source, TopicExchange(source)).bind(binding)

    def remove(self, copy: str) -> None:
        """A queue is gone; if it was a copy, nothing is sent to it any more."""
        found = self._by_copy.pop(copy, None)
        if found is None:
            return
        source, binding = found
        copies = self.sources[source]
        copies.unbind(binding)
        if copies.is_unused:
            del self.sources[source]

    def reached(self, names: Iterable[str], routing_key: str) -> tuple[str, ...]:
        """The queues that a message for `names` goes to, sorted: these, their copies, and theirs in turn."""
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
