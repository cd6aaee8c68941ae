"""Cluster messages between nodes: metadata consensus, joining, durable states and applied indexes."""

from __future__ import annotations

import msgspec

from mirrormq.consensus.raft_messages import DurableState
from mirrormq.protocol_version import PROTOCOL_VERSION_OLDEST


class RaftMessage(msgspec.Struct, frozen=True, array_like=True, tag="raft"):
    """Message of the metadata consensus (`consensus.encode_message`)."""

    data: bytes


class JoinRequest(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """Request of a node that belongs to no cluster to become a member."""

    name: str
    address: str
    """Address at which other nodes reach it: host:port."""
    version: int = PROTOCOL_VERSION_OLDEST
    """Protocol version of the node."""


class JoinRefused(msgspec.Struct, frozen=True, array_like=True, tag="join-refused"):
    """Refusal of a join request, with its reason."""

    reason: str


class ForgottenNotice(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """Notice of a leader to a node that is no longer a member and does not know it."""


class DurableStateReply(msgspec.Struct, frozen=True, array_like=True, tag="state-known"):
    """Reply to a node's statement of its durable state: the first message on a link."""

    lost: DurableState | None = None
    """State that the sender has stored, if the receiver's disk went back."""


class Reach(msgspec.Struct, frozen=True, array_like=True, tag="reach"):
    """Applied index of a node, or a request for it (`ApplyBarrier`)."""

    index: int
    is_request: bool
    """Whether the receiver must reply once it has applied `index`; otherwise the sender has applied it."""


ClusterMessage = RaftMessage | JoinRequest | JoinRefused | ForgottenNotice | DurableStateReply | Reach
