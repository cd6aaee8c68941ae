"""Events of a node's cluster membership, for the runtime, the coordinator and the partition modes."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.consensus import Forked, Members


class LeaderChanged(NamedTuple):
    """Another node leads, or none (None): the metadata cannot change for now."""

    leader: str | None
    term: int


class MembersChanged(NamedTuple):
    """Change of the committed membership."""

    members: Members


class ForkFound(NamedTuple):
    """Fork with a peer: both sides have changes that the other lacks."""

    fork: Forked


class ForkHealed(NamedTuple):
    """End of the fork with a peer."""

    peer: str


class Refused(NamedTuple):
    """Refusal of this node's join request by the cluster."""

    by: str
    reason: str


class Forgotten(NamedTuple):
    """Removal of this node from the cluster while it was away."""

    by: str


class WentBack(NamedTuple):
    """Disk of a node, this one or a peer, that is older than what its peers have stored. The node does not
    vote."""

    node: str


class CaughtUp(NamedTuple):
    """End of the catch-up of a peer whose disk went back. The peer votes again."""

    peer: str


MemberEvent = (
    LeaderChanged | MembersChanged | ForkFound | ForkHealed | Refused | Forgotten | WentBack | CaughtUp
)
