"""Ready: the batch of work that `Consensus.ready()` hands to the runtime."""

from __future__ import annotations

import msgspec

from mirrormq.consensus.raft_messages import Branch, Committed, Entry, HardState, Members, Message, Snapshot


class Forked(msgspec.Struct, frozen=True):
    """Fork between this node and a peer: after `common`, each has changes that the other lacks.

    `since` is the last index with substance on this side, `peer_since` on the other. The two exchange nothing
    until one of them calls `reset_to` with a snapshot of the other.
    """

    peer: str
    common: int
    branch: int
    since: int
    peer_branch: int
    peer_since: int


class Ready(msgspec.Struct):
    """Work to do in this order: persist, send, restore, apply; then `advance()`."""

    snapshot: Snapshot | None = None
    """Persist first. Replaces entries up to its index; with `restore`, the whole log."""
    restore: bool = False
    """Restart the state machine from `snapshot.state`."""
    hard_state: HardState | None = None
    """Persist second."""
    entries: list[Entry] = msgspec.field(default_factory=list)
    """Persist third. The first one replaces everything from its index on."""
    must_sync: bool = False
    """Fields above must survive a crash before the fields below are processed."""
    messages: list[tuple[str, Message]] = msgspec.field(default_factory=list)
    """Send to the named nodes. The network may lose, delay and duplicate messages."""
    committed: list[Committed] = msgspec.field(default_factory=list)
    """Apply in order. Duplicates have been removed."""
    settled: list[int] = msgspec.field(default_factory=list)
    """Proposals of this node whose effect is in the restored snapshot. They will not appear in
    `committed`."""
    members: Members | None = None
    """Committed membership, if it has changed."""
    forks: list[Forked] = msgspec.field(default_factory=list)
    """New forks, or known ones that have changed."""
    healed: list[str] = msgspec.field(default_factory=list)
    """Peers that are no longer forked."""

    @property
    def empty(self) -> bool:
        return self == _EMPTY

    @property
    def parts(self) -> bool:
        """Whether `entries` open a branch of a minority. The other side of a partition may then continue,
        too."""
        return any(isinstance(entry.payload, Branch) and not entry.payload.whole for entry in self.entries)


_EMPTY = Ready()
