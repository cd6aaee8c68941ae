"""Before a node serves it looks around.

It may be the last one that knows of something, or the one that everybody went on without. So when it starts
it first hears of the others; and whenever it comes into touch with somebody who serves and follows another
leader it first compares histories with that one: if they differ it is to join the others (`state_fetch`), not
to serve beside them. Neither is waited for for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirrormq.cluster.autoheal import Presence
from mirrormq.cluster.member import Member

DISCOVERY_MS = 2000
"""A node that starts waits so long to hear of those who ran when it last heard; and where a few may go on
without the rest, for all others to be in touch: ten times what a link takes. It may have to take over their
metadata first."""

COMPARE_MS = 4000
"""How long after it has come into touch with a node it waits to compare histories with it: an election, and
some heartbeats."""


class StartupDiscovery:
    """How far one node has got to know the others since it started."""

    def __init__(self, member: Member, presences: Mapping[str, Presence]) -> None:
        self._member = member
        self._presences = presences
        self._began_ms: int | None = None
        self._now_ms = 0
        self._met_ms: dict[str, int] = {}
        """Nodes to which this process has had a link, and since when it has the last one."""

    def met(self, peer: str) -> None:
        """There is a link to a node."""
        self._met_ms[peer] = self._now_ms

    def tick(self, now_ms: int) -> None:
        """Time passes."""
        self._now_ms = now_ms
        if self._began_ms is None:
            self._began_ms = now_ms

    @property
    def expected(self) -> frozenset[str]:
        """Nodes that this one has not met, because it has only just begun: it may lead before all links are
        up, and must not give up a master that runs and is about to be seen."""
        if self._began_ms is None or self._now_ms - self._began_ms >= DISCOVERY_MS:
            return frozenset()
        return frozenset(self._member.consensus.members.voters) - self._met_ms.keys()

    def awaits(self, strict: bool) -> str:
        """What it waits for before it goes on; empty: nothing, or it has waited. `strict`: only a majority
        ever goes on."""
        if self._began_ms is None:
            return "it looks for the others"
        if unheard := self._unheard(strict):
            return f"it has not heard of {', '.join(unheard)} yet"
        if strangers := self._strangers():
            return f"it does not know yet whether {', '.join(strangers)} went another way"
        return ""

    def _unheard(self, strict: bool) -> list[str]:
        """Who is in touch says at once who it is; the others are given their time."""
        member = self._member
        voters = member.consensus.members.voters
        awaited = member.linked.intersection(voters)
        if self._began_ms is not None and self._now_ms - self._began_ms < DISCOVERY_MS:
            running = {node.name for node in member.metadata.state.nodes.values() if node.running}
            awaited |= running.intersection(voters) if strict else set(voters)
        return sorted(awaited - {member.name} - self._presences.keys())

    def _strangers(self) -> list[str]:
        """Nodes that serve and follow somebody else, and whose history has not been compared with this
        one's: perhaps they went another way, and then this node is to join them."""
        forks = self._member.consensus.forks
        known = {"", self._member.leader}
        return sorted(
            name
            for name, presence in self._presences.items()
            if presence.serving and presence.leader not in known and name not in forks
            if self._now_ms - self._met_ms.get(name, 0) < COMPARE_MS
        )
