"""Raft log in memory: entries written, on disk, committed and applied.

Invariants: snapshot ≤ applied ≤ commit ≤ last, and stable ≤ last. Entries older than the snapshot may stay
in memory for slow followers; `offset` is the index before the first entry in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.consensus.consensus_errors import UnsafeTruncation
from mirrormq.consensus.log_history import NOTHING, LogHistory, TermRun, run_at
from mirrormq.consensus.raft_messages import Branch, ChangeMembers, Entry, Members, Payload, Snapshot
from mirrormq.consensus.raft_settings import RUNS_MAX


class RaftLog:
    """Entries since the last snapshot, with the runs of the whole history."""

    def __init__(self, snapshot: Snapshot, entries: Sequence[Entry], commit: int) -> None:
        self.restore(snapshot)
        self.extend([entry for entry in entries if entry.index > snapshot.index])
        self.handed = self.persisting = self.stable = self.last
        self.commit = max(min(commit, self.last), snapshot.index)

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the log by a snapshot."""
        self.snapshot_index = self.offset = self.worth = snapshot.index
        self.cluster = snapshot.cluster
        self.entries: list[Entry] = []
        self.runs = list(snapshot.runs)
        self._members = [(snapshot.index, snapshot.members)]
        self.commit = self.applied = snapshot.index
        self.handed = self.persisting = self.stable = snapshot.index

    @property
    def last(self) -> int:
        return self.offset + len(self.entries)

    @property
    def last_run(self) -> TermRun:
        return self.runs[-1]

    @property
    def members(self) -> Members:
        """Newest membership in the log, committed or not."""
        return self._members[-1][1]

    @property
    def members_index(self) -> int:
        return self._members[-1][0]

    def members_at(self, index: int) -> Members:
        return next(members for written, members in reversed(self._members) if written <= index)

    def history(self) -> LogHistory:
        return LogHistory(tuple(self.runs), self.last, self.worth, self.settled_index(self.commit))

    def runs_until(self, index: int) -> tuple[TermRun, ...]:
        return tuple(run for run in self.runs if run.first <= index)

    def writer(self, index: int) -> tuple[int, int] | None:
        """Return the (term, branch) that wrote an index; None if it is unknown or beyond the log."""
        run = run_at(self.runs, index) if NOTHING < index <= self.last else None
        return run.writer if run is not None else None

    def entry(self, index: int) -> Entry:
        return self.entries[index - self.offset - 1]

    def between(self, after: int, until: int) -> list[Entry]:
        """Return the entries from `after` + 1 to `until`."""
        return self.entries[after - self.offset : until - self.offset]

    def batch(self, after: int, limit_bytes: int) -> tuple[Entry, ...]:
        """Return entries after an index up to a size limit, but at least one if one exists."""
        size_bytes = 0
        batch: list[Entry] = []
        for position in range(after - self.offset, len(self.entries)):
            entry = self.entries[position]
            size_bytes += entry.size_bytes
            if batch and size_bytes > limit_bytes:
                break
            batch.append(entry)
        return tuple(batch)

    def write(self, term: int, branch: int, payload: Payload) -> Entry:
        """Append the leader's next entry."""
        entry = Entry(self.last + 1, term, branch, payload)
        self.extend([entry])
        return entry

    def extend(self, entries: Sequence[Entry]) -> None:
        """Append entries that follow the last one."""
        for entry in entries:
            self.entries.append(entry)
            if not self.runs or self.runs[-1].writer != (entry.term, entry.branch):
                self.runs.append(self._begun_by(entry))
            if entry.substantial:
                self.worth = entry.index
            if isinstance(entry.payload, ChangeMembers):
                self._members.append((entry.index, entry.payload.members))
        del self.runs[:-RUNS_MAX]

    def _begun_by(self, entry: Entry) -> TermRun:
        opened = entry.payload
        whole = opened.whole if isinstance(opened, Branch) else self.runs[-1].whole
        return TermRun(entry.term, entry.branch, entry.index, whole)

    def truncate(self, index: int) -> None:
        """Drop the entries after an index. Committed entries stay, unless they have no substance."""
        self.guard(index)
        del self.entries[index - self.offset :]
        while self.runs and self.runs[-1].first > index:
            self.runs.pop()
        while self.members_index > index:
            self._members.pop()
        substantial = (entry.index for entry in reversed(self.entries) if entry.substantial)
        self.worth = max(next(substantial, NOTHING), self.snapshot_index)
        self.commit, self.applied = min(self.commit, index), min(self.applied, index)
        self.handed, self.persisting = min(self.handed, index), min(self.persisting, index)
        self.stable = min(self.stable, index)

    def guard(self, index: int) -> None:
        """Stop the node rather than drop committed entries, should an earlier check have failed."""
        lost = any(entry.substantial for entry in self.between(max(index, self.offset), self.commit))
        if lost or index < self.snapshot_index:
            raise UnsafeTruncation(f"cannot truncate the log after {index}: {self.commit} is committed")

    def settled_index(self, index: int) -> int:
        """Return the last entry with substance up to an index.

        A snapshot there equals one at the index, and a tail without substance can still be dropped after it.
        """
        while index > self.snapshot_index and not self.entry(index).substantial:
            index -= 1
        return index

    def compact(self, index: int, trailing_bytes: int) -> None:
        """Replace the entries up to an index by a snapshot; keep the last `trailing_bytes` of them in
        memory."""
        keep = index
        while keep > self.offset and trailing_bytes > 0:
            trailing_bytes -= self.entry(keep).size_bytes
            keep -= 1
        del self.entries[: keep - self.offset]
        self.offset = keep
        self.snapshot_index = index
        base = self.members_at(index)
        self._members = [(index, base)] + [pair for pair in self._members if pair[0] > index]
