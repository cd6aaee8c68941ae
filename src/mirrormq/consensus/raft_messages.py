"""Raft data types: entries, hard state, snapshots, and the messages between nodes.

All are tagged arrays, so msgpack keeps them small and a decoder needs no schema beside these classes. A
message does not carry its sender's name: the receiver knows from which node's link it came.
"""

from __future__ import annotations

import msgspec

from mirrormq.consensus.log_history import NOTHING, LogHistory, TermRun


class Members(msgspec.Struct, frozen=True, array_like=True):
    """Membership: voters, and learners that do not vote until they have caught up. Both sorted."""

    voters: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()

    @property
    def everyone(self) -> tuple[str, ...]:
        return self.voters + self.learners


class Nothing(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """First entry of a term. It lets the leader commit the entries of earlier terms."""


class Command(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Proposal in the log. `oldest` is the lowest number its origin may still send: lower ones are
    settled."""

    origin: str
    number: int
    oldest: int
    data: bytes


class ChangeMembers(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Membership change, in effect from this entry on, committed or not."""

    members: Members


class Branch(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """First entry of a term that opens a branch, which diverges from `parent` after `base`."""

    branch: int
    parent: int
    base: int
    whole: bool


Payload = Nothing | Command | ChangeMembers | Branch


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Log entry: an index, and what the leader of (term, branch) wrote there."""

    index: int
    term: int
    branch: int
    payload: Payload

    @property
    def substantial(self) -> bool:
        return isinstance(self.payload, Command | ChangeMembers)

    @property
    def size_bytes(self) -> int:
        """Approximate size in a message."""
        return ENTRY_BYTES + (len(self.payload.data) if isinstance(self.payload, Command) else 0)


ENTRY_BYTES = 64
"""Overhead of an entry beside its data, in bytes: numbers, a node's name, tags."""


class DiskStart(msgspec.Struct, frozen=True, array_like=True):
    """Start of a node on its disk: the random number drawn for it, and the state that it loaded."""

    boots: int
    start: int
    term: int
    last: tuple[int, int]


class DurableState(msgspec.Struct, frozen=True, array_like=True, tag="durable-state"):
    """Durable position of a node's metadata, as the node states it when a link comes up."""

    name: str
    boots: int
    """Number of starts of the node."""
    start: int
    """Random number drawn for this start."""
    term: int
    last: tuple[int, int]
    """Term and index of the last entry on disk."""
    starts: tuple[DiskStart, ...] = ()
    """Latest starts on this disk, oldest first, this one included. Peers do not store them."""


class HardState(msgspec.Struct, frozen=True, array_like=True):
    """State that a node must keep across crashes beside its log.

    `boots` separates its proposal numbers from those of its earlier incarnations. `commit` only saves time at
    the next start.
    """

    term: int = 0
    vote: str | None = None
    boots: int = 0
    commit: int = NOTHING
    peers: tuple[DurableState, ...] = ()
    """Highest durable state that each other node has stated (`durable_states`)."""
    starts: tuple[DiskStart, ...] = ()
    """Latest starts on this disk (`durable_states.STARTS_KEPT`)."""
    discarded_incarnation: int = 0
    """Highest incarnation that this node had in a history that it has discarded (`Consensus.reset_to`)."""

    @property
    def promise(self) -> tuple[int, str | None, int, tuple[DiskStart, ...]]:
        """Part of the hard state that other nodes rely on."""
        return self.term, self.vote, self.boots, self.starts


class Applied(msgspec.Struct, frozen=True, array_like=True):
    """Applied proposals of one origin: all below `floor` are settled, and `numbers` above it."""

    origin: str
    floor: int
    numbers: tuple[int, ...]
    index: int


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """State after the entry at `index`, in place of the entries up to it."""

    index: int = NOTHING
    members: Members = Members()
    runs: tuple[TermRun, ...] = ()
    applied: tuple[Applied, ...] = ()
    state: bytes = b""
    cluster: int = 0
    """Cluster id given at bootstrap; 0 before a joining node has learned it."""


class Committed(msgspec.Struct, frozen=True):
    """Proposal to apply, once. (origin, number) is what `propose` returned on the origin."""

    index: int
    origin: str
    number: int
    data: bytes


class PreVote(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Pre-vote request for `term`, which the sender has not entered."""

    term: int
    history: LogHistory


class Vote(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Vote request. `transfer` is set if the leader requested the election (`TimeoutNow`)."""

    term: int
    history: LogHistory
    transfer: bool


class VoteReply(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Reply to PreVote and Vote. A granted PreVote returns the term of the request."""

    term: int
    granted: bool
    early: bool
    history: LogHistory


class Append(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Entries after `previous`, which (term, branch) wrote. Without entries, a heartbeat.

    `history` is present until the follower has confirmed that its log agrees.
    """

    term: int
    previous: int
    previous_term: int
    previous_branch: int
    entries: tuple[Entry, ...]
    commit: int
    history: LogHistory | None


class AppendReply(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Reply to Append. `index` is the last entry that agrees, or the `previous` that was refused. A refusal,
    and the reply to a history, carry the follower's history."""

    term: int
    accepted: bool
    index: int
    history: LogHistory | None


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Part of the encoded snapshot at `index`, which is `total` bytes long."""

    term: int
    index: int
    offset: int
    total: int
    data: bytes
    history: LogHistory


class ChunkReply(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Request for the next part of a snapshot."""

    term: int
    index: int
    offset: int


class TimeoutNow(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Leadership transfer: the receiver must start an election at once."""

    term: int


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Proposal of the sender, for the leader to append."""

    number: int
    oldest: int
    data: bytes


Message = PreVote | Vote | VoteReply | Append | AppendReply | Chunk | ChunkReply | TimeoutNow | Forward
