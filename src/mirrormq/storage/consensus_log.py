"""Persistent Raft state of a node: the `RaftStorage` of `consensus`, in one small file.

The file is an `EntryLog`. Its first entry is a snapshot; each further entry is a *batch*, written by one
`save`. A batch has one checksum, so it exists as a whole or not at all. A snapshot is written to a new
file, followed by the entries that are still valid, and the file is renamed over the old one. One complete
history therefore always exists.

The commit index only saves time at the next start. A change of the commit index alone is not written: it
goes along with the next batch, and with `close`.

Damage. A torn last batch was never synced and is cut off. Damage before a valid batch is different: the
node has lost something that it promised to keep. A member of a cluster must not continue, since other
nodes rely on the promise; it can join again as a new node. A cluster of one node made its promises to its
operator only, so it keeps the rest: lost entries become empty ones, and the loss is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mirrormq.consensus import Entry, HardState, Ready, Snapshot, StoredLog
from mirrormq.consensus.proposals import BOOT_SHIFT
from mirrormq.consensus.raft_messages import ChangeMembers, Command, Nothing
from mirrormq.errors import DamageError
from mirrormq.storage import journal_records
from mirrormq.storage.disk import Disk
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.recovery_report import Dropped


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    hard_state: HardState
    entries: list[Entry]


_encode = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(_Batch).decode
_decode_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class ConsensusLog:
    """Raft storage of one node. Implements `consensus.RaftStorage`. `failed` is called when the disk
    fails, for every caller of a write."""

    def __init__(
        self, disk: Disk, directory: str, failed: Callable[[JournalFailed], None] = lambda failure: None
    ) -> None:
        self._log = EntryLog(disk, directory)
        self._failed = failed
        self._hard_state = HardState()
        self._lasting = HardState()
        """The hard state that is in the file."""
        self._kept: list[Entry] = []

    @property
    def dropped(self) -> Sequence[Dropped]:
        """Parts of the file that could not be used."""
        return self._log.dropped

    def open(self, make: Callable[[], Snapshot], boots: int = 0) -> bool:
        """Read the file. If there is none, begin with a snapshot and return True. `boots` as for `begin`:
        the file may be an older copy of the node's state. Raise DamageError if the file is unusable."""
        entries = self._log.open()
        if not entries and not self.dropped:
            self.begin(make(), boots)
            return True
        if self.dropped and self.dropped[0].offset == journal_records.DATA_AT:
            raise DamageError(
                f"the snapshot in {self.dropped[0].path} is damaged, so users, queues and all the rest are "
                "unknown. Restore the file from a backup, or remove it to begin with the defaults."
            )
        try:
            members = _decode_snapshot(entries[0]).members
            batches = [_decode_batch(batch) for batch in entries[1:]]
        except msgspec.DecodeError as error:
            raise DamageError(f"{self._log.path} was not written by this version: {error}") from None
        for batch in batches:
            self._hard_state = batch.hard_state
            _replace_from(self._kept, batch.entries)
        if self._damaged:
            self._fill_gaps(members.everyone)
        boots = max(boots, self._hard_state.boots)
        self._lasting = self._hard_state = msgspec.structs.replace(self._hard_state, boots=boots)
        return False

    def begin(self, snapshot: Snapshot, boots: int = 0) -> None:
        """Discard everything and start from this snapshot. `boots` must exceed the boot number of every
        earlier incarnation of a node of this name whose proposals a cluster may remember."""
        self._hard_state = HardState(boots=boots)
        self._kept = []
        self._write_snapshot(snapshot)

    # -- RaftStorage ----------------------------------------------------------------------------

    def load(self) -> StoredLog:
        return StoredLog(self._hard_state, self.snapshot(), list(self._kept))

    def snapshot(self) -> Snapshot:
        return _decode_snapshot(self._log.first_entry())

    def save(self, ready: Ready) -> None:
        """Persist the parts of `ready` in order, and sync if required."""
        if ready.snapshot is not None:
            kept = [entry for entry in self._kept if entry.index > ready.snapshot.index]
            self._kept = [] if ready.restore else kept
            self._write_snapshot(ready.snapshot)
        if ready.hard_state is not None:
            self._hard_state = ready.hard_state
        _replace_from(self._kept, ready.entries)
        if ready.entries or self._hard_state.promise != self._lasting.promise:
            self._write_batch(ready.entries, ready.must_sync)

    def close(self) -> None:
        """Write the commit index and close the file."""
        if self._hard_state != self._lasting:
            self._write_batch([], sync=False)
        self._log.close()

    def _write_batch(self, entries: list[Entry], sync: bool) -> None:
        try:
            self._log.append(_encode(_Batch(self._hard_state, entries)), sync)
        except JournalFailed as failure:
            self._failed(failure)
            raise
        self._lasting = self._hard_state

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        kept = _encode(_Batch(self._hard_state, self._kept))
        try:
            self._log.replace([_encode(snapshot), kept])
        except JournalFailed as failure:
            self._failed(failure)
            raise
        self._lasting = self._hard_state

    # -- damage ---------------------------------------------------------------------------------

    @property
    def _damaged(self) -> bool:
        return any(dropped.reason == "damaged" for dropped in self.dropped)

    def _fill_gaps(self, members: tuple[str, ...]) -> None:
        """Continue without the lost entries, if no other node relies on them."""
        for entry in self._kept:
            if isinstance(entry.payload, ChangeMembers):
                members = entry.payload.members.everyone
        if len(members) > 1:
            raise DamageError(
                f"{self._log.path} is damaged, so this node cannot keep what it has promised to its "
                "cluster. Let the others forget it (forget_cluster_node), remove its data directory, and let "
                "it join again."
            )
        whole: list[Entry] = []
        for entry in self._kept:
            while whole and whole[-1].index + 1 < entry.index:
                whole.append(Entry(whole[-1].index + 1, whole[-1].term, whole[-1].branch, Nothing()))
            whole.append(entry)
        snapshot = self.snapshot()
        while whole and whole[0].index > snapshot.index + 1:
            whole.insert(0, Entry(whole[0].index - 1, whole[0].term, whole[0].branch, Nothing()))
        self._kept = whole
        # The lost batches may have held the newest hard state. Derive term and boot number from the rest, so
        # that no term and no proposal number is used twice.
        boots, term = self._hard_state.boots, self._hard_state.term
        for entry in whole:
            term = max(term, entry.term)
            if isinstance(entry.payload, Command):
                boots = max(boots, entry.payload.number >> BOOT_SHIFT)
        for row in snapshot.applied:
            boots = max(boots, row.floor >> BOOT_SHIFT, *(number >> BOOT_SHIFT for number in row.numbers))
        self._hard_state = msgspec.structs.replace(self._hard_state, term=term, boots=boots)
        self._write_snapshot(snapshot)


def _replace_from(kept: list[Entry], entries: list[Entry]) -> None:
    """Append entries; the first one replaces everything from its index on."""
    if entries:
        while kept and kept[-1].index >= entries[0].index:
            kept.pop()
        kept += entries
