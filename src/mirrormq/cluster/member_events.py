"""What a node's membership tells those who act on it: the runtime, the coordinator, the partition modes."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.consensus import Forked, Members


class LeaderChanged(NamedTuple):
    """Another node leads, or nobody (None): then nothing can be decided for now."""

    leader: str | None
    term: int


class MembersChanged(NamedTuple):
    """The committed membership has changed."""

    members: Members


class ForkFound(NamedTuple):
    """A peer has done something that this node lacks, and the other way round."""

    fork: Forked


class ForkHealed(NamedTuple):
    """A peer that was forked from this node is not any more."""

    peer: str


class Refused(NamedTuple):
    """The cluster does not let this node join."""

    by: str
    reason: str


class Forgotten(NamedTuple):
    """The cluster has taken this node out while it was away."""

    by: str


class WentBack(NamedTuple):
    """The disk of a node, this one or a peer, is older than what its peers remember: it does not vote."""

    node: str


class CaughtUp(NamedTuple):
    """A peer whose disk went back has everything again: it votes."""

    peer: str


MemberEvent = (
    LeaderChanged | MembersChanged | ForkFound | ForkHealed | Refused | Forgotten | WentBack | CaughtUp
)
