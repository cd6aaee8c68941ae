"""Startup discovery: a node waits up to `DISCOVERY_MS` for its peers before it serves clients.

A starting node may be the last one with some data, or the other nodes may have continued without it. It
therefore waits for their presences first. When it connects to a serving node with another leader, it
compares histories with that node before it serves. If they differ, it joins the others (`state_transfer`)
instead of serving beside them. Both waits are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirrormq.cluster.autoheal import Presence
from mirrormq.cluster.member import Member

DISCOVERY_MS = 2000
"""Time that a starting node waits for the presences of nodes that ran when it stopped: ten times what a link
takes. It may have to fetch their metadata first.

In modes in which a minority may continue, it waits for all other nodes.
"""

COMPARE_MS = 4000
"""Time to compare histories after a link came up: an election, and some heartbeats."""


class StartupDiscovery:
    """Peers that one node has met since it started."""

    def __init__(self, member: Member, presences: Mapping[str, Presence]) -> None:
        self._member = member
        self._presences = presences
        self._began_ms: int | None = None
        self._now_ms = 0
        self._met_ms: dict[str, int] = {}
        """Start time of the last link to each node that this process has been connected to."""

    def met(self, peer: str) -> None:
        """Record a new link to a node."""
        self._met_ms[peer] = self._now_ms

    def tick(self, now_ms: int) -> None:
        """Advance the time."""
        self._now_ms = now_ms
        if self._began_ms is None:
            self._began_ms = now_ms

    @property
    def expected(self) -> frozenset[str]:
        """Nodes that this node has not met within `DISCOVERY_MS` of its start. It may lead before all links
        are up, and must not replace a running master that is about to connect."""
        if self._began_ms is None or self._now_ms - self._began_ms >= DISCOVERY_MS:
            return frozenset()
        return frozenset(self._member.consensus.members.voters) - self._met_ms.keys()

    def awaits(self, strict: bool) -> str:
        """Return what the node waits for before it serves; empty if nothing. `strict`: only a majority ever
        continues."""
        if self._began_ms is None:
            return "it waits for its peers"
        if unheard := self._unheard(strict):
            return f"it waits for the presence of {', '.join(unheard)}"
        if uncompared := self._uncompared():
            return f"it compares its metadata history with {', '.join(uncompared)}"
        return ""

    def _unheard(self, strict: bool) -> list[str]:
        """Return the nodes without a presence: connected nodes always, other nodes until `DISCOVERY_MS` have
        passed."""
        member = self._member
        voters = member.consensus.members.voters
        awaited = member.linked.intersection(voters)
        if self._began_ms is not None and self._now_ms - self._began_ms < DISCOVERY_MS:
            running = {node.name for node in member.metadata.state.nodes.values() if node.running}
            awaited |= running.intersection(voters) if strict else set(voters)
        return sorted(awaited - {member.name} - self._presences.keys())

    def _uncompared(self) -> list[str]:
        """Return serving nodes with another leader whose history has not been compared yet. This node must
        join them if they are forked."""
        forks = self._member.consensus.forks
        known = {"", self._member.leader}
        return sorted(
            name
            for name, presence in self._presences.items()
            if presence.serving and presence.leader not in known and name not in forks
            if self._now_ms - self._met_ms.get(name, 0) < COMPARE_MS
        )
