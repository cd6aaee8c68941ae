"""Proposals: numbered at their origin, forwarded to the leader, sent again after failures, applied once.

The origin keeps a proposal until it is applied, and sends it to every new leader. Several leaders may
therefore write the same proposal. Every node keeps, as part of the replicated state, which numbers of each
origin were applied, and skips duplicates. The table stays small: each proposal carries the number below
which its origin has no open proposals. An origin never runs further ahead of that number than its window.

The leader writes proposals of one origin in the order of their numbers, even if some were lost on their
way: it accepts a proposal only if it has the previous one.
"""

from __future__ import annotations

import msgspec

from mirrormq.consensus.consensus_errors import Busy, NotLeader
from mirrormq.consensus.raft_messages import (
    Applied,
    ChangeMembers,
    Command,
    Committed,
    Entry,
    Forward,
    Snapshot,
)
from mirrormq.consensus.raft_settings import ORIGINS_MAX
from mirrormq.consensus.raft_state import RaftState

BOOT_SHIFT = 32
"""Bits of a proposal number within one incarnation of a node: four billion proposals."""


class AppliedOnce:
    """Table of applied proposals. All nodes have the same table after the same entry."""

    def __init__(self, rows: tuple[Applied, ...]) -> None:
        self._rows = {row.origin: (row.floor, set(row.numbers), row.index) for row in rows}

    def rows(self) -> tuple[Applied, ...]:
        return tuple(
            Applied(origin, floor, tuple(sorted(numbers)), index)
            for origin, (floor, numbers, index) in sorted(self._rows.items())
        )

    def has(self, origin: str, number: int) -> bool:
        floor, numbers, _ = self._rows.get(origin, (0, frozenset(), 0))
        return number < floor or number in numbers

    def add(self, command: Command, index: int) -> bool:
        """Record a proposal. Return False if it was applied or settled before."""
        if self.has(command.origin, command.number):
            return False
        floor, numbers, _ = self._rows.get(command.origin, (0, set(), 0))
        floor = max(floor, command.oldest)
        kept = {number for number in numbers if number >= floor}
        self._rows[command.origin] = (floor, kept | {command.number}, index)
        return True

    def forget_strangers(self, members: tuple[str, ...]) -> None:
        """Forget nodes that left the cluster, except for the `ORIGINS_MAX` most recent ones."""
        left = sorted((row[2], origin) for origin, row in self._rows.items() if origin not in members)
        for _, origin in left[:-ORIGINS_MAX]:
            del self._rows[origin]


class Outstanding(msgspec.Struct):
    """Proposal of this node that has not been applied yet."""

    data: bytes
    age_ticks: int = 0
    term: int = 0
    """Term in which it was proposed."""
    otherwise: bytes | None = None
    """Replacement once the leadership of that term is over, because a follower must not insist on a leader's
    decision. (The number must stay in use, because later ones wait for it.)"""


class Proposals:
    """Proposals of this node, and those that other nodes forward to it."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._next = state.boots << BOOT_SHIFT
        self.outstanding: dict[int, Outstanding] = {}
        self._written: set[tuple[str, int]] = set()
        """On a leader: proposals that are in its log and not applied yet."""
        self.settled: list[int] = []
        self.applied = AppliedOnce(state.storage.snapshot().applied)

    def renumber(self) -> dict[int, int]:
        """Give outstanding proposals new numbers, and return the new number of each.

        The numbers continue from the new count of starts. This node may have used the old ones before its
        disk went back.
        """
        first = self._next = self._state.boots << BOOT_SHIFT
        renumbered = dict(zip(self.outstanding, range(first, first + len(self.outstanding)), strict=True))
        self.outstanding = {renumbered[number]: proposal for number, proposal in self.outstanding.items()}
        self._next += len(renumbered)
        self.resend()
        return renumbered

    @property
    def _oldest(self) -> int:
        return next(iter(self.outstanding), self._next)

    def propose(self, data: bytes, otherwise: bytes | None = None) -> int:
        state = self._state
        if len(data) > state.settings.proposal_bytes_max:
            limit = state.settings.proposal_bytes_max
            raise ValueError(f"a proposal of {len(data)} bytes is too large, the limit is {limit}")
        if state.leader is None:
            raise NotLeader(None)
        if self._next - self._oldest >= state.settings.proposals_max:
            raise Busy(f"{len(self.outstanding)} proposals are in flight; retry when some are applied")
        if state.leading and state.replication.handing_over:
            raise Busy("leadership is being handed over")
        number, self._next = self._next, self._next + 1
        self.outstanding[number] = Outstanding(data, 0, state.term, otherwise)
        self._pass_on(number)
        return number

    def _pass_on(self, number: int) -> None:
        state, proposal = self._state, self.outstanding[number]
        proposal.age_ticks = 0
        if proposal.otherwise is not None and not (state.leading and state.term == proposal.term):
            proposal.data = proposal.otherwise
        if state.leading:
            self._write(Command(state.name, number, self._oldest, proposal.data))
        elif state.leader is not None:
            state.send(state.leader, Forward(number, self._oldest, proposal.data))

    def tick(self) -> None:
        """Resend proposals that have been in flight for an election timeout."""
        for number, proposal in list(self.outstanding.items()):
            proposal.age_ticks += 1
            if proposal.age_ticks >= self._state.settings.election_ticks:
                self._pass_on(number)

    def resend(self) -> None:
        """Send all outstanding proposals to the new leader."""
        for number in list(self.outstanding):
            self._pass_on(number)

    def lead(self) -> None:
        """Collect the unapplied proposals in the new leader's log, and write those of this node that are
        missing."""
        commands = (entry.payload for entry in self._state.log.between(*self._unapplied()))
        self._written = {(c.origin, c.number) for c in commands if isinstance(c, Command)}
        self.resend()

    def _unapplied(self) -> tuple[int, int]:
        return self._state.log.applied, self._state.log.last

    def forwarded(self, sender: str, message: Forward) -> None:
        """Write another node's proposal if this node leads and has the previous one. Otherwise the origin
        retries."""
        state = self._state
        if not state.leading or state.replication.handing_over or sender not in state.log.members.everyone:
            return
        if message.number == message.oldest or self._knows(sender, message.number - 1):
            self._write(Command(sender, message.number, message.oldest, message.data))

    def _knows(self, origin: str, number: int) -> bool:
        return (origin, number) in self._written or self.applied.has(origin, number)

    def _write(self, command: Command) -> None:
        known = self._knows(command.origin, command.number)
        if known or self._state.replication.handing_over:
            return
        self._written.add((command.origin, command.number))
        self._state.log.write(self._state.term, self._state.run.branch, command)

    def apply(self, entries: list[Entry]) -> list[Committed]:
        """Return the commands of committed entries that the state machine must apply, without duplicates."""
        result = []
        for entry in entries:
            payload = entry.payload
            if isinstance(payload, ChangeMembers):
                self.applied.forget_strangers(payload.members.everyone)
                self._state.membership.apply(payload.members)
            elif isinstance(payload, Command):
                self._written.discard((payload.origin, payload.number))
                if self.applied.add(payload, entry.index):
                    result.append(Committed(entry.index, payload.origin, payload.number, payload.data))
                if payload.origin == self._state.name:
                    self.outstanding.pop(payload.number, None)
        return result

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the table of applied proposals from a snapshot, and settle this node's proposals in it."""
        self.applied = AppliedOnce(snapshot.applied)
        done = [number for number in self.outstanding if self.applied.has(self._state.name, number)]
        for number in done:
            del self.outstanding[number]
        self.settled += done
