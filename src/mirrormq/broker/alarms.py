"""Resource alarms: while one is raised, on whichever node, connections that publish are blocked on all nodes.

A publisher's messages may go to a queue on any node, so it is no use to block only those who are connected
to the one that is short of memory or disk. Each node tells the others of its alarms; those of a node
that is lost, or serves nobody, do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

MEMORY = "memory"
DISK = "disk"


class Alarms:
    """The alarms that are raised, and who wants to know when that changes."""

    def __init__(self) -> None:
        self.raised: set[str] = set()
        """This node's own."""
        self.on_peers: dict[str, frozenset[str]] = {}
        """Other nodes', by name."""
        self.in_force: frozenset[str] = frozenset()
        """The resources that any node is short of."""
        self.listeners: list[Callable[[], None]] = []

    @property
    def reason(self) -> str:
        """What connection.blocked says, in RabbitMQ's words."""
        if self.in_force == {MEMORY}:
            return "low on memory"
        return "low on disk" if self.in_force == {DISK} else "low on memory & disk"

    def by_node(self, me: str) -> list[tuple[str, str]]:
        """All of them, as (node, resource)."""
        on_all_nodes = {**self.on_peers, me: self.raised}
        return [(node, resource) for node in sorted(on_all_nodes) for resource in sorted(on_all_nodes[node])]

    def set(self, resource: str, raised: bool) -> bool:
        """Raise or clear an alarm of this node; True if that changed anything."""
        if raised == (resource in self.raised):
            return False
        if raised:
            self.raised.add(resource)
        else:
            self.raised.discard(resource)
        self._changed()
        return True

    def hear(self, on_peers: Mapping[str, Collection[str]]) -> list[str]:
        """These are all the alarms of other nodes now; gives lines for the log."""
        now = {node: frozenset(resources) for node, resources in on_peers.items() if resources}
        before, self.on_peers = self.on_peers, now
        if now == before:
            return []
        self._changed()
        return [*_news(before, now, "cleared"), *_news(now, before, "set")]

    def _changed(self) -> None:
        self.in_force = frozenset(self.raised).union(*self.on_peers.values())
        for listener in self.listeners:
            listener()


def _news(
    those: Mapping[str, frozenset[str]], known: Mapping[str, frozenset[str]], what: str
) -> Iterator[str]:
    for node in sorted(those):
        for resource in sorted(those[node] - known.get(node, frozenset())):
            yield f"{resource} resource limit alarm {what} on node {node}"
