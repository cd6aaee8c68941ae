"""Two sides that went on apart have met again: who wins, and what the others have to do.

A fork is found by the metadata's consensus: both sides have written what the other lacks, and neither can
follow the other without giving something up. That is an operator's decision, or, with `autoheal`, the
arbiter's: the node with the smallest name among all that are linked now. Everybody tells everybody its
`Presence`; the arbiter adds up the sides and compares

    clients, then nodes, then histories (the later one wins), then names (the smallest name wins)

and tells each node of a losing side who has won. Clients come first because they are what would be lost:
a loser closes all of its own. A side that serves nobody, such as a node that was restarted meanwhile, loses.

A loser, each node by itself:

    1.  stops its application: clients are closed, rings dropped
    2.  sets aside what only its side has (`orphans`), durably
    3.  gives up its metadata for a snapshot of the winner's (`Consensus.reset_to`)
    4.  starts its application, in its next life; the coordinator lets it join its rings again
    5.  puts back what it set aside, or keeps it, as the policy says

Each step may be repeated after a crash. A node obeys only the arbiter that it would name itself, and only if
it is forked from the winner: what is said twice, or late, does nothing.

A node that starts is in no side yet. If whoever shares its history is not serving while somebody who does
not share it is, it joins those, whatever the mode: that is how an operator heals a partition by hand,
by restarting the side that is to give up. If nobody serves and nobody can, because every node has come back
and each waits for others that went another way, the arbiter decides in any mode: there is nobody to disturb,
and the side whose history is the later one goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from mirrormq.consensus.raft_messages import DurableState


class Presence(msgspec.Struct, frozen=True, array_like=True, tag="presence"):
    """What a node tells all others of itself, once in a while and when it changes."""

    node: str
    incarnation: int
    serving: bool
    """Its application runs."""
    clients: int
    """Open connections."""
    leader: str
    """Whom it follows in the metadata; empty if nobody."""
    reachable: tuple[str, ...]
    """The nodes that it has a link to."""
    forked: tuple[str, ...] = ()
    """The nodes whose metadata went another way than its own."""
    alarms: tuple[str, ...] = ()
    """What it is short of: publishers rest everywhere."""
    usage: tuple[tuple[str, str, int], ...] = ()
    """What of its clients counts towards limits that hold for all nodes together."""
    history: tuple[int, int] = (0, 0)
    """How late its metadata is: the last leader's term, the last change."""
    durable: DurableState | None = None
    """Durable position of its metadata (`consensus.durable_states`)."""


class LoserNotice(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """The arbiter to a node of a losing side."""

    winner: str
    """The node to get the metadata from."""


class Side(NamedTuple):
    """Nodes that share a history."""

    leader: str
    nodes: tuple[str, ...]
    serving: int
    clients: int
    history: tuple[int, int]

    @property
    def worth(self) -> tuple[bool, int, int, tuple[int, int]]:
        """What sides are compared by, before their names."""
        return self.serving > 0, self.clients, len(self.nodes), self.history


def sides(presences: Iterable[Presence]) -> list[Side]:
    """Who is with whom: the followers of one leader. A node that follows nobody is a side of its own if it is
    forked from anybody; else it has only not found its leader yet, and is not counted."""
    by_leader: dict[str, list[Presence]] = {}
    for presence in presences:
        if presence.leader or presence.forked:
            by_leader.setdefault(presence.leader or presence.node, []).append(presence)
    return [
        Side(
            leader,
            tuple(sorted(presence.node for presence in followers)),
            sum(presence.serving for presence in followers),
            sum(presence.clients for presence in followers if presence.serving),
            max(presence.history for presence in followers),
        )
        for leader, followers in sorted(by_leader.items())
    ]


def winner(candidates: Collection[Side], before: str = "") -> Side:
    """The side that goes on: of the leader that was said to have won `before`, while it serves, or two sides
    with as many clients would be told in turn that they have lost."""
    for side in candidates:
        if side.leader == before and side.serving:
            return side
    best = max(side.worth for side in candidates)
    return min((side for side in candidates if side.worth == best), key=lambda side: side.nodes)


def is_arbiter(me: str, linked: Collection[str]) -> bool:
    """Does this node decide?"""
    return all(me <= name for name in linked)


def arbiter_decisions(
    me: str, linked: Collection[str], presences: Mapping[str, Presence], before: str = ""
) -> list[tuple[str, LoserNotice]]:
    """What the arbiter has to tell, and to whom; nothing if this node is not the arbiter, if it has not
    heard from everybody, or if all is one story. `presences` has this node's own, too; `before` is who was
    said to have won when it was last asked."""
    everybody = {me, *linked}
    if not is_arbiter(me, linked) or not presences.keys() >= everybody:
        return []
    found = [presences[name] for name in sorted(everybody)]
    forked = {(presence.node, peer) for presence in found for peer in presence.forked}
    if not forked:
        return []
    groups = sides(found)
    if len(groups) < 2:
        return []
    best = winner(groups, before)
    return [
        (name, LoserNotice(best.leader))
        for side in groups
        if side is not best
        for name in side.nodes
        if any((name, other) in forked or (other, name) in forked for other in best.nodes)
    ]


def no_side_continues(members: Collection[str], presences: Mapping[str, Presence]) -> bool:
    """Are all members there, and does none of them serve, or have a leader with whom it soon would?"""
    return all(
        name in presences and not presences[name].serving and not presences[name].leader for name in members
    )


def accepts_notice(
    me: str, linked: Collection[str], forked: Collection[str], sender: str, word: LoserNotice
) -> bool:
    """Does this node do as it is told?"""
    return word.winner in forked and sender == min(me, *linked)


def nodes_to_join(
    linked: Collection[str], forked: Collection[str], presences: Mapping[str, Presence]
) -> list[Presence]:
    """For a node that does not serve: those who do, if nobody of its own story does. It must not serve beside
    them. Of a side whose leader is out of sight nothing can be taken over."""
    serving = [presences[name] for name in sorted(linked) if name in presences and presences[name].serving]
    if any(presence.node not in forked for presence in serving):
        return []
    return [presence for presence in serving if not presence.leader or presence.leader in forked]


def node_to_join(others: Collection[Presence]) -> str | None:
    """Of those, the leader whose metadata is to be taken over; None while they have none."""
    found = [presence for presence in others if presence.leader]
    return winner(sides(found)).leader if found else None
