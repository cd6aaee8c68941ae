"""Everything that is sent or kept: entries, hard state, snapshots, and the messages between nodes.

All are tagged arrays, so msgpack keeps them small and a decoder needs no schema beside these classes.
The sender's name is not in a message: whoever carries it knows from which node's link it came.
"""

from __future__ import annotations

import msgspec

from mirrormq.consensus.log_history import NOTHING, LogHistory, TermRun


class Members(msgspec.Struct, frozen=True, array_like=True):
    """Who votes, and who only listens until it has caught up. Both sorted."""

    voters: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()

    @property
    def everyone(self) -> tuple[str, ...]:
        return self.voters + self.learners


class Nothing(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The first entry of a term: lets the leader commit what earlier terms left."""


class Command(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A proposal. `oldest` is the lowest number its origin may still send: below it all is settled."""

    origin: str
    number: int
    oldest: int
    data: bytes


class ChangeMembers(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """From this entry on (committed or not), these are the members."""

    members: Members


class Branch(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The first entry of a term that opens a branch; it parts from `parent` after `base`."""

    branch: int
    parent: int
    base: int
    whole: bool


Payload = Nothing | Command | ChangeMembers | Branch


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One place in the log and what its leader wrote there."""

    index: int
    term: int
    branch: int
    payload: Payload

    @property
    def substantial(self) -> bool:
        return isinstance(self.payload, Command | ChangeMembers)

    @property
    def size_bytes(self) -> int:
        """About what it takes in a message."""
        return ENTRY_BYTES + (len(self.payload.data) if isinstance(self.payload, Command) else 0)


ENTRY_BYTES = 64
"""What an entry costs beside its data: numbers, a node's name, tags."""


class DurableState(msgspec.Struct, frozen=True, array_like=True, tag="durable-state"):
    """Durable position of a node's metadata, as the node states it when a link comes up."""

    name: str
    boots: int
    """How often it has started."""
    start: int
    """Drawn for this start."""
    term: int
    last: tuple[int, int]
    """Term and index of its last entry on disk."""


class HardState(msgspec.Struct, frozen=True, array_like=True):
    """What a node must remember of itself. `boots` keeps its proposal numbers apart from those of
    its former incarnations; `commit` only saves time at the next start."""

    term: int = 0
    vote: str | None = None
    boots: int = 0
    commit: int = NOTHING
    peers: tuple[DurableState, ...] = ()
    """Highest durable state that each other node has stated (`durable_states`)."""


class Applied(msgspec.Struct, frozen=True, array_like=True):
    """Which proposals of one origin were applied: all below `floor` are settled, and these above it."""

    origin: str
    floor: int
    numbers: tuple[int, ...]
    index: int


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state after the entry at `index`, in place of the entries up to it."""

    index: int = NOTHING
    members: Members = Members()
    runs: tuple[TermRun, ...] = ()
    applied: tuple[Applied, ...] = ()
    state: bytes = b""
    cluster: int = 0
    """What the cluster was founded as; 0 before a joining node has heard."""


class Committed(msgspec.Struct, frozen=True):
    """A proposal to apply, once. (origin, number) is what `propose` returned on the origin."""

    index: int
    origin: str
    number: int
    data: bytes


class PreVote(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Would you vote for me in this term, which I have not entered?"""

    term: int
    history: LogHistory


class Vote(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Vote for me. With `transfer` the leader itself asked me to stand."""

    term: int
    history: LogHistory
    transfer: bool


class VoteReply(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Answers both; a granted PreVote is answered with the term it asked about."""

    term: int
    granted: bool
    early: bool
    history: LogHistory


class Append(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Entries after `previous`, which (term, branch) wrote; without entries, a sign of life.

    `history` is there until the follower has confirmed that its log agrees.
    """

    term: int
    previous: int
    previous_term: int
    previous_branch: int
    entries: tuple[Entry, ...]
    commit: int
    history: LogHistory | None


class AppendReply(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """`index` is the last entry that agrees, or the `previous` that was refused. A refusal, and the
    answer to a history, come with the follower's own."""

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
    """The part that is wanted next."""

    term: int
    index: int
    offset: int


class StandNow(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The leader hands over: stand for election at once."""

    term: int


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A proposal of the sender, for the leader to append."""

    number: int
    oldest: int
    data: bytes


Message = PreVote | Vote | VoteReply | Append | AppendReply | Chunk | ChunkReply | StandNow | Forward
