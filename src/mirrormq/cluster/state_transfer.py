"""State transfer of the winner's metadata to a loser (steps 1 to 3 of `autoheal`).

    fetch the winner's state in chunks             the application still runs: nothing is discarded yet
    the application discards its state             clients closed, orphans set aside against that state
    the metadata is reset to the winner's          and the node belongs to the winner's side

The state is a snapshot of the winner's consensus. It may be slightly old when it is used: later changes
arrive by ordinary replication. If the link breaks, or the fork heals meanwhile, the node keeps its own
state, and starts again with the next notice.

Two nodes that fetch from each other would only swap their histories. The node with the greater name
therefore continues, and the other one aborts. A node that discards its own history cannot export it; a node
that requests it waits, then tries again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mirrormq.cluster.member import Member
from mirrormq.consensus import LogHistory, Snapshot
from mirrormq.consensus.log_history import common_index
from mirrormq.metadata.state import MetadataState

WINNER_TIMEOUT_MS = 5000
"""Time that the winner may be silent before the attempt is abandoned."""

STATE_BYTES_MAX = 1 << 30
"""Upper bound of a state's size. A larger one cannot be valid and is not fetched."""


class StateRequest(msgspec.Struct, frozen=True, array_like=True, tag="want-state"):
    """Request of a loser for the winner's metadata, from `offset` on."""

    export: int
    """Number of the export that the loser reads; 0 requests a new one."""
    offset: int


class StateChunk(msgspec.Struct, frozen=True, array_like=True, tag="state-part"):
    """Part of an encoded snapshot."""

    export: int
    offset: int
    total: int
    data: bytes


_decode_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class StateExport:
    """Export on the winner: keeps a snapshot for each loser while the loser reads it."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._count = 0
        self._taken: dict[str, tuple[int, bytes]] = {}

    def part(self, peer: str, want: StateRequest) -> StateChunk:
        """Return the requested chunk, or the first one of a new export if the old export is gone."""
        number, data = self._taken.get(peer, (0, b""))
        offset = want.offset
        if want.export != number or not number:
            self._count += 1
            number, offset = self._count, 0
            self._member.work()  # apply committed entries first: the export must include them
            exported = self._member.consensus.export(self._member.metadata.state.snapshot())
            data = msgspec.msgpack.encode(exported)
            self._taken[peer] = number, data
        part = data[offset : offset + self._member.limits.state_chunk_bytes]
        if offset + len(part) >= len(data):
            del self._taken[peer]
        return StateChunk(number, offset, len(data), part)

    def forget(self, peer: str) -> None:
        """Drop the export of a loser whose link went down."""
        self._taken.pop(peer, None)


GiveUp = Callable[[MetadataState, int, Callable[[], None]], None]
"""Function that stops the application, sets aside what the given state's cluster lacks, and calls back. Its
second argument is the last entry that the metadata logs of both sides share."""


class StateFetch:
    """Fetch of the winner's state on a loser."""

    def __init__(
        self,
        member: Member,
        give_up: GiveUp,
        send: Callable[[str, StateRequest], None],
    ) -> None:
        self._member = member
        self._give_up = give_up
        self._send = send
        self.winner = ""
        self._export = 0
        self._parts: list[bytes] = []
        self._giving_up = False
        self._heard_ms: int | None = None

    @property
    def under_way(self) -> bool:
        """Return whether a fetch is in progress."""
        return bool(self.winner)

    def goes_on(self, now_ms: int) -> bool:
        """Check the timeout of the fetch, and return whether it is still in progress."""
        if not self.under_way or self._giving_up:
            return self.under_way
        if self._heard_ms is None:
            self._heard_ms = now_ms
        if self.winner not in self._member.consensus.forks or now_ms - self._heard_ms >= WINNER_TIMEOUT_MS:
            self._end()
        return self.under_way

    def lets_follow(self, peer: str) -> bool:
        """Return whether this node may export its state to a peer. Abort a mutual fetch if the peer's name is
        greater."""
        if self._giving_up:
            return False
        if peer == self.winner:
            if self._member.name > peer:
                return False
            self._end()
        return True

    def begin(self, winner: str) -> None:
        """Start to fetch the winner's state, because this node's side has lost."""
        if self.under_way:
            return
        self.winner, self._export, self._parts, self._heard_ms = winner, 0, [], None
        self._send(winner, StateRequest(0, 0))

    def down(self, peer: str) -> None:
        """Abort the fetch if the link to the winner went down."""
        if peer == self.winner and not self._giving_up:
            self._end()

    def received(self, peer: str, part: StateChunk) -> None:
        """Process a chunk of the winner's state."""
        if peer != self.winner or self._giving_up or part.total > STATE_BYTES_MAX:
            return
        self._heard_ms = None
        if part.export != self._export:
            self._export, self._parts = part.export, []
        have = sum(map(len, self._parts))
        if part.offset == have:
            self._parts.append(part.data)
            have += len(part.data)
        if have < part.total:
            self._send(peer, StateRequest(self._export, have))
            return
        snapshot = _decode_snapshot(b"".join(self._parts))
        # From here on neither a lost link nor the timeout ends the attempt: the node discards its own state.
        self._giving_up = True
        theirs = LogHistory(snapshot.runs, snapshot.index, snapshot.index)
        common = common_index(self._member.consensus.state.log.history(), theirs)
        winner = MetadataState.from_snapshot(snapshot.state)
        self._give_up(winner, common, lambda: self._reset(snapshot))

    def _reset(self, snapshot: Snapshot) -> None:
        self._giving_up = False
        winner_is_forked = self.winner in self._member.consensus.forks
        self._end()
        if winner_is_forked:
            self._member.reset_to(snapshot)

    def _end(self) -> None:
        self.winner, self._parts = "", []
