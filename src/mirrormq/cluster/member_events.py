"""Events of a node's cluster membership, for the runtime, the coordinator and the partition modes."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.consensus import Forked, Members


class LeaderChanged(NamedTuple):
    """Change of the metadata leader. Without a leader (None) the metadata cannot change."""

    leader: str | None
    term: int


class MembersChanged(NamedTuple):
    """Change of the committed membership."""

    members: Members


class ForkFound(NamedTuple):
    """Fork between the metadata logs of this node and a peer: each has entries that the other lacks."""

    fork: Forked


class ForkHealed(NamedTuple):
    """End of the fork with a peer: both logs agree again."""

    peer: str


class Refused(NamedTuple):
    """Refusal of this node's join request by the cluster."""

    by: str
    reason: str


class Forgotten(NamedTuple):
    """Removal of this node from the cluster (`forget_cluster_node`) while it was not connected."""

    by: str


class WentBack(NamedTuple):
    """Restored data directory of this node or of a peer: its peers remember a later state. The node does not
    vote in metadata elections."""

    node: str


class CaughtUp(NamedTuple):
    """End of the catch-up of a peer whose data directory was restored. The peer votes again."""

    peer: str


MemberEvent = (
    LeaderChanged | MembersChanged | ForkFound | ForkHealed | Refused | Forgotten | WentBack | CaughtUp
)
