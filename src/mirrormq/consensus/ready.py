"""What a node wants done next: the batch that `Consensus.ready()` hands out."""

from __future__ import annotations

import msgspec

from mirrormq.consensus.raft_messages import Branch, Committed, Entry, HardState, Members, Message, Snapshot


class Forked(msgspec.Struct, frozen=True):
    """A peer and this node both did something after `common` that the other lacks.

    `since` is the last index with substance on this side, `peer_since` on the other. Nothing is exchanged
    with that peer until one of the two calls `reset_to` with a snapshot of the other.
    """

    peer: str
    common: int
    branch: int
    since: int
    peer_branch: int
    peer_since: int


class Ready(msgspec.Struct):
    """To be done in this order: persist, send, restore, apply; then `advance()`."""

    snapshot: Snapshot | None = None
    """Persist first. It replaces entries up to its index; with `restore`, the whole log."""
    restore: bool = False
    """The state machine starts over from `snapshot.state`."""
    hard_state: HardState | None = None
    """Persist second."""
    entries: list[Entry] = msgspec.field(default_factory=list)
    """Persist third. The first one replaces everything from its index on."""
    must_sync: bool = False
    """The above must survive a crash before anything below is done."""
    messages: list[tuple[str, Message]] = msgspec.field(default_factory=list)
    """Send, to the node named. Losing, delaying and doubling them is allowed."""
    committed: list[Committed] = msgspec.field(default_factory=list)
    """Apply, in order. Duplicates have been taken out."""
    settled: list[int] = msgspec.field(default_factory=list)
    """This node's own proposals whose effect is in the restored snapshot: they will not come as entries."""
    members: Members | None = None
    """The committed membership, if it has changed."""
    forks: list[Forked] = msgspec.field(default_factory=list)
    """Newly found forks, or known ones that have changed."""
    healed: list[str] = msgspec.field(default_factory=list)
    """Peers that were forked and are not any more."""

    @property
    def empty(self) -> bool:
        return self == _EMPTY

    @property
    def parts(self) -> bool:
        """Whether what comes now was begun by fewer than a majority: others may go on beside them."""
        return any(isinstance(entry.payload, Branch) and not entry.payload.whole for entry in self.entries)


_EMPTY = Ready()
