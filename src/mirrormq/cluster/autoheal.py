"""Autoheal: choice of the winner after a partition in which both sides continued, and the losers' steps.

The metadata's consensus finds a fork: both sides have written changes that the other lacks, and neither can
follow the other without dropping some. An operator decides then or, with `autoheal`, the arbiter: the node
with the smallest name among all that are linked now. Every node sends its `Presence` to all others. The
arbiter sums up the sides, compares them by

    clients, then nodes, then histories (the later one wins), then names (the smallest name wins)

and notifies each node of a losing side. Clients come first because a loser closes all of its connections. A
side that serves no clients, such as a node that was restarted meanwhile, loses.

Each losing node, independently of the others:

    1.  stops its application: it closes its clients and drops its rings
    2.  sets aside the messages that only its side has (`orphan_store`), durably
    3.  replaces its metadata by a snapshot of the winner's (`Consensus.reset_to`)
    4.  starts its application in its next incarnation; the coordinator lets it join its rings again
    5.  republishes the orphans, or keeps them, depending on the policy

Each step may be repeated after a crash. A node accepts a notice only from the arbiter that it would choose
itself, and only if it is forked from the winner. A repeated or late notice therefore has no effect.

A starting node belongs to no side yet. It joins the serving nodes that do not share its history, in any
mode, if no node that shares its history is serving. An operator heals a partition by hand this way, by
restarting the losing side.

Every node may be back and each may wait for nodes of the other side, so that none serves. The arbiter then
decides in any mode, because no client is connected, and the side with the later history wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from mirrormq.consensus.raft_messages import DurableState
from mirrormq.protocol_version import PROTOCOL_VERSION_OLDEST


class Presence(msgspec.Struct, frozen=True, array_like=True, tag="presence"):
    """Gossip message of a node about itself, sent periodically and after changes."""

    node: str
    incarnation: int
    serving: bool
    """Whether its application runs."""
    clients: int
    """Number of open connections."""
    leader: str
    """Metadata leader that it follows; empty if none."""
    reachable: tuple[str, ...]
    """Nodes that it has a link to."""
    forked: tuple[str, ...] = ()
    """Nodes whose metadata is forked from its own."""
    alarms: tuple[str, ...] = ()
    """Resource alarms of the node. Publishers are blocked on all nodes."""
    usage: tuple[tuple[str, str, int], ...] = ()
    """Usage by its clients, counted towards cluster-wide limits."""
    history: tuple[int, int] = (0, 0)
    """Order of its metadata: term of the last leader, index of the last change."""
    durable: DurableState | None = None
    """Durable position of its metadata (`consensus.durable_states`)."""
    version: int = PROTOCOL_VERSION_OLDEST
    """Its protocol version, as it belongs into its record. Nodes of version 2 do not send it."""
    static_shovels: tuple[str, ...] = ()
    """Names of the shovels in its settings, as they belong into its record."""


class LoserNotice(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """Notice of the arbiter to a node of a losing side."""

    winner: str
    """Node to fetch the metadata from."""


class Side(NamedTuple):
    """Side of a partition: nodes that share a history."""

    leader: str
    nodes: tuple[str, ...]
    serving: int
    clients: int
    history: tuple[int, int]

    @property
    def worth(self) -> tuple[bool, int, int, tuple[int, int]]:
        """Order of sides, before their names."""
        return self.serving > 0, self.clients, len(self.nodes), self.history


def sides(presences: Iterable[Presence]) -> list[Side]:
    """Group nodes by the leader that they follow. A node without a leader is a side if it is forked from any
    node; otherwise it has not found its leader yet and is left out."""
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
    """Return the winning side.

    The side of `before`, an earlier decision's winner, stays the winner while it serves. Otherwise two sides
    with equally many clients would be notified in turn that they have lost.
    """
    for side in candidates:
        if side.leader == before and side.serving:
            return side
    best = max(side.worth for side in candidates)
    return min((side for side in candidates if side.worth == best), key=lambda side: side.nodes)


def is_arbiter(me: str, linked: Collection[str]) -> bool:
    """Return whether this node is the arbiter."""
    return all(me <= name for name in linked)


def arbiter_decisions(
    me: str, linked: Collection[str], presences: Mapping[str, Presence], before: str = ""
) -> list[tuple[str, LoserNotice]]:
    """Return the arbiter's notices to the losing nodes.

    The result is empty if this node is not the arbiter, lacks a presence, or sees no fork. `presences`
    includes this node's own; `before` is the winner of the last decision.
    """
    connected = {me, *linked}
    if not is_arbiter(me, linked) or not presences.keys() >= connected:
        return []
    reported = [presences[name] for name in sorted(connected)]
    forked = {(presence.node, peer) for presence in reported for peer in presence.forked}
    if not forked:
        return []
    groups = sides(reported)
    if len(groups) < 2:
        return []
    best = winner(groups, before)
    # A node without a fork from the winner follows it by itself and needs no notice.
    return [
        (name, LoserNotice(best.leader))
        for side in groups
        if side is not best
        for name in side.nodes
        if any((name, other) in forked or (other, name) in forked for other in best.nodes)
    ]


def no_side_continues(members: Collection[str], presences: Mapping[str, Presence]) -> bool:
    """Return whether all members are connected and none of them serves or has a leader."""
    return all(
        name in presences and not presences[name].serving and not presences[name].leader for name in members
    )


def accepts_notice(
    me: str, linked: Collection[str], forked: Collection[str], sender: str, notice: LoserNotice
) -> bool:
    """Return whether this node must act on a notice: it is forked from the winner, and the sender is its
    arbiter."""
    return notice.winner in forked and sender == min(me, *linked)


def nodes_to_join(
    linked: Collection[str], forked: Collection[str], presences: Mapping[str, Presence]
) -> list[Presence]:
    """Return the serving nodes that a node which does not serve must join: all of them are forked from it.

    The node must not serve beside them. A side whose leader is not connected is left out, because its state
    cannot be fetched.
    """
    serving = [presences[name] for name in sorted(linked) if name in presences and presences[name].serving]
    if any(presence.node not in forked for presence in serving):
        return []
    return [presence for presence in serving if not presence.leader or presence.leader in forked]


def node_to_join(others: Collection[Presence]) -> str | None:
    """Return the leader whose metadata this node must fetch; None while the others have no leader."""
    led = [presence for presence in others if presence.leader]
    return winner(sides(led)).leader if led else None
