"""What nodes say to each other over a link, beside what queues say."""

from __future__ import annotations

import msgspec

from mirrormq.consensus.raft_messages import DurableState


class RaftMessage(msgspec.Struct, frozen=True, array_like=True, tag="raft"):
    """A message of the agreement on metadata (`consensus.encode_message`)."""

    data: bytes


class JoinRequest(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """From a node that belongs to no cluster: let me be a member of yours."""

    name: str
    address: str
    """Where other nodes reach it: host:port."""


class JoinRefused(msgspec.Struct, frozen=True, array_like=True, tag="join-refused"):
    """No, and why."""

    reason: str


class ForgottenNotice(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """From a leader to a node that believes to be a member and is none any more."""


class StateKnown(msgspec.Struct, frozen=True, array_like=True, tag="state-known"):
    """Answer to a node's statement of its durable state: the first message on a link."""

    lost: DurableState | None = None
    """State that the sender remembers, if the receiver's disk went back."""


class Reach(msgspec.Struct, frozen=True, array_like=True, tag="reach"):
    """How far somebody has applied what was agreed upon."""

    index: int
    is_request: bool
    """Tell me when you have come that far; else: I have."""


ClusterMessage = RaftMessage | JoinRequest | JoinRefused | ForgottenNotice | StateKnown | Reach
