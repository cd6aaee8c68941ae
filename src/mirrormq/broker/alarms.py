"""Resource alarms: while any node has one, all nodes block connections that publish.

A publisher's messages may go to a queue on any node. Blocking only the clients of the node that is short
of memory or disk would not help. Each node reports its alarms to the others; alarms of a node that is
lost, or does not serve clients, do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

MEMORY = "memory"
DISK = "disk"


class Alarms:
    """Raised alarms of all nodes, and the listeners for changes."""

    def __init__(self) -> None:
        self.raised: set[str] = set()
        """Alarms of this node."""
        self.on_peers: dict[str, frozenset[str]] = {}
        """Alarms of other nodes, by node name."""
        self.in_force: frozenset[str] = frozenset()
        """Resources that any node is short of."""
        self.listeners: list[Callable[[], None]] = []

    @property
    def reason(self) -> str:
        """Reason in connection.blocked, in RabbitMQ's words."""
        if self.in_force == {MEMORY}:
            return "low on memory"
        return "low on disk" if self.in_force == {DISK} else "low on memory & disk"

    def by_node(self, me: str) -> list[tuple[str, str]]:
        """Return all alarms as (node, resource)."""
        on_all_nodes = {**self.on_peers, me: self.raised}
        return [(node, resource) for node in sorted(on_all_nodes) for resource in sorted(on_all_nodes[node])]

    def set(self, resource: str, raised: bool) -> bool:
        """Raise or clear an alarm of this node. Return whether that changed anything."""
        if raised == (resource in self.raised):
            return False
        if raised:
            self.raised.add(resource)
        else:
            self.raised.discard(resource)
        self._changed()
        return True

    def update_peers(self, on_peers: Mapping[str, Collection[str]]) -> list[str]:
        """Replace the alarms of all other nodes. Return lines for the log."""
        now = {node: frozenset(resources) for node, resources in on_peers.items() if resources}
        before, self.on_peers = self.on_peers, now
        if now == before:
            return []
        self._changed()
        return [*_log_lines(before, now, "cleared"), *_log_lines(now, before, "set")]

    def _changed(self) -> None:
        self.in_force = frozenset(self.raised).union(*self.on_peers.values())
        for listener in self.listeners:
            listener()


def _log_lines(
    alarms: Mapping[str, frozenset[str]], known: Mapping[str, frozenset[str]], change: str
) -> Iterator[str]:
    for node in sorted(alarms):
        for resource in sorted(alarms[node] - known.get(node, frozenset())):
            yield f"{resource} resource limit alarm {change} on node {node}"
