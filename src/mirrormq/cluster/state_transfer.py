"""A loser's way over to the winner's metadata (steps 1 to 3 of `healing`).

    ask the winner for its state, part by part     the application still runs: nothing is given up yet
    the application gives up                       clients closed, orphans set aside against that state
    the metadata is reset to it                    and the node is one of the winner's

The state is a snapshot of the winner's consensus. It may be a little old when it is used: what has
happened since comes the ordinary way. If the link breaks, or the winner changes its mind, the node is
still whole, and begins again when it is told so again.

Two who ask each other would only swap their histories, so the greater name goes on and the other one lets it.
A node that gives its own history up has none to give to others; who asks it is patient, then asks again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mirrormq.cluster.member import Member
from mirrormq.consensus import Snapshot
from mirrormq.metadata.state import MetadataState

PART_BYTES = 256 * 1024
"""As much as the consensus sends in one message."""

PATIENCE_MS = 5000
"""How long the winner may be silent before the attempt is over."""

STATE_BYTES_MAX = 1 << 30
"""A larger state is not asked for: it would not be one of ours."""


class StateRequest(msgspec.Struct, frozen=True, array_like=True, tag="want-state"):
    """A loser to the winner: give me your metadata, from `offset` on."""

    export: int
    """Which export it has begun with; 0: a new one."""
    offset: int


class StateChunk(msgspec.Struct, frozen=True, array_like=True, tag="state-part"):
    """Part of an encoded snapshot."""

    export: int
    offset: int
    total: int
    data: bytes


_decode_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class StateExport:
    """The winner's side: a snapshot is kept for each loser while it reads it."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._count = 0
        self._taken: dict[str, tuple[int, bytes]] = {}

    def part(self, peer: str, want: StateRequest) -> StateChunk:
        """The part that is wanted; from the beginning, if what was begun is not there any more."""
        number, data = self._taken.get(peer, (0, b""))
        offset = want.offset
        if want.export != number or not number:
            self._count += 1
            number, offset = self._count, 0
            self._member.work()  # what was agreed on, or taken over, is in the state only then
            exported = self._member.consensus.export(self._member.metadata.state.snapshot())
            data = msgspec.msgpack.encode(exported)
            self._taken[peer] = number, data
        part = data[offset : offset + PART_BYTES]
        if offset + len(part) >= len(data):
            del self._taken[peer]
        return StateChunk(number, offset, len(data), part)

    def forget(self, peer: str) -> None:
        """The link to a loser is gone."""
        self._taken.pop(peer, None)


GiveUp = Callable[[MetadataState, Callable[[], None]], None]
"""Stop the application, and set aside what this state's cluster lacks; then call back."""


class StateFetch:
    """The loser's side."""

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
        """Is it going on?"""
        return bool(self.winner)

    def goes_on(self, now_ms: int) -> bool:
        """Is it still going on, as time passes?"""
        if not self.under_way or self._giving_up:
            return self.under_way
        if self._heard_ms is None:
            self._heard_ms = now_ms
        if self.winner not in self._member.consensus.forks or now_ms - self._heard_ms >= PATIENCE_MS:
            self._end()
        return self.under_way

    def lets_follow(self, peer: str) -> bool:
        """May a node that asks have this one's state?"""
        if self._giving_up:
            return False
        if peer == self.winner:
            if self._member.name > peer:
                return False
            self._end()
        return True

    def begin(self, winner: str) -> None:
        """This node's side has lost."""
        if self.under_way:
            return
        self.winner, self._export, self._parts, self._heard_ms = winner, 0, [], None
        self._send(winner, StateRequest(0, 0))

    def down(self, peer: str) -> None:
        """The link to a node is gone."""
        if peer == self.winner and not self._giving_up:
            self._end()

    def received(self, peer: str, part: StateChunk) -> None:
        """A part of the winner's state."""
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
        self._giving_up = True
        self._give_up(MetadataState.from_snapshot(snapshot.state), lambda: self._cross_over(snapshot))

    def _cross_over(self, snapshot: Snapshot) -> None:
        self._giving_up = False
        winner_is_forked = self.winner in self._member.consensus.forks
        self._end()
        if winner_is_forked:
            self._member.reset_to(snapshot)

    def _end(self) -> None:
        self.winner, self._parts = "", []
