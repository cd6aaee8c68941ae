"""Topic exchange: routing keys are words between dots, binding keys are patterns of words.

`*` stands for exactly one word, `#` for zero or more. A word may be empty ("a..b" has three), but the empty
key has no words: "#" matches it and "*" does not.

The patterns of one exchange share a trie whose edges are words, `*` and `#`. A key is matched by following
all matching branches in parallel, word by word: `active` holds the nodes reached so far. A node behind a `#`
edge stays active for every word, and `_reach` follows a `#` that matches no word at once. Several `#` in a
pattern therefore cost no backtracking: the work per word is bounded by the active nodes, and each node is
active once.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrormq.exchanges.binding import Binding, CountedDestinations, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.fields import Table

ANY_WORD = "*"
ANY_WORDS = "#"


def split_words(key: str) -> list[str]:
    """Return the words of a key; the empty key has none."""
    return key.split(".") if key else []


class TrieNode:
    """Node of the trie: destinations bound exactly here, and edges to longer patterns."""

    __slots__ = ("children", "destinations", "stays")

    def __init__(self, stays: bool) -> None:
        self.children: dict[str, TrieNode] = {}
        self.destinations: CountedDestinations | None = None
        self.stays = stays
        """True behind a `#` edge: once reached, the node stays active."""


class TopicExchange(Exchange):
    kind = "topic"
    by_every_key = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._root = TrieNode(stays=False)

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        active: dict[TrieNode, None] = {}
        _reach(self._root, active)
        for word in split_words(routing_key):
            reached: dict[TrieNode, None] = {}
            for node in active:
                if node.stays:
                    _reach(node, reached)
                children = node.children
                if children:
                    if (child := children.get(word)) is not None:
                        _reach(child, reached)
                    if (child := children.get(ANY_WORD)) is not None:
                        _reach(child, reached)
            active = reached
            if not active:
                return ()
        return [each for node in active if node.destinations for each in node.destinations]

    def _added(self, binding: Binding) -> None:
        node = self._root
        for word in split_words(binding.routing_key):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = TrieNode(stays=word == ANY_WORDS)
            node = child
        if node.destinations is None:
            node.destinations = CountedDestinations()
        node.destinations.add(binding.destination)

    def _removed(self, binding: Binding) -> None:
        node = self._root
        path: list[tuple[TrieNode, str]] = []
        for word in split_words(binding.routing_key):
            path.append((node, word))
            node = node.children[word]
        assert node.destinations is not None
        node.destinations.discard(binding.destination)
        if not node.destinations:
            node.destinations = None
        while path and not node.children and node.destinations is None:
            node, word = path.pop()
            del node.children[word]

    def node_count(self) -> int:
        """Return the number of nodes of the trie, without its root."""
        count = -1
        remaining = [self._root]
        while remaining:
            node = remaining.pop()
            count += 1
            remaining.extend(node.children.values())
        return count


def _reach(node: TrieNode, reached: dict[TrieNode, None]) -> None:
    """Activate a node, and those behind it through `#` edges that match no word."""
    while node not in reached:
        reached[node] = None
        following = node.children.get(ANY_WORDS)
        if following is None:
            return
        node = following
