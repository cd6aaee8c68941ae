"""Restore of a backup into an empty cluster, in steps that can be repeated.

    1.  vhosts, policies, exchanges and queues, without bindings
    2.  per queue: messages, publish ids, leases; then the queue is read back and compared
    3.  bindings, parameters, users and permissions

An interrupted restore continues when it is run again with the same backup: the cluster has a mark of it, and
each queue is compared with the backup before the rest of its messages is added. A queue with other messages,
because clients have used it meanwhile, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from mirrormq.backup.backup_files import BackupError, BackupReader, MessageDigest, QueueEntry
from mirrormq.backup.cluster_access import ClusterAccess
from mirrormq.ranges import backup_protocol, error_reasons
from mirrormq.ranges.backup_protocol import LeaseCut, QueueCut, TakeCut
from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.ranges.range_batch import BatchRow, RangeBatch
from mirrormq.sequences.spans import pack, spans_of_unordered, unpack
from mirrormq.spark.client.client_errors import RequestRefused

Progress = Callable[[str], None]

BATCH_ROWS = 4096
BATCH_BYTES = 1024 * 1024
"""Messages per request: some ten milliseconds of the master's time, and a part of what the stream between
two nodes holds."""

UNKNOWN_BATCH = "not a batch of version"
"""Part of the error text of nodes that do not know batches with ingestion times."""

ATTEMPTS = 5
"""Attempts for one queue. Each continues after a lost reply, for example during a failover."""


def restore(
    cluster: ClusterAccess, backup: BackupReader, progress: Progress, batch_rows: int = BATCH_ROWS
) -> tuple[int, int]:
    """Restore everything; return the numbers of queues and messages, all compared with the backup."""
    manifest = backup.manifest
    progress("vhosts, policies, exchanges and queues")
    _ask_metadata(cluster, backup_protocol.OBJECTS, backup)
    for number, entry in enumerate(manifest.queues, 1):
        progress(f"queue {number} of {len(manifest.queues)}: '{entry.name}', {entry.messages} messages")
        _QueueRestore(cluster, backup, entry, batch_rows).run()
    progress("bindings, parameters, users and permissions")
    _ask_metadata(cluster, backup_protocol.ACCESS, backup)
    return len(manifest.queues), sum(entry.messages for entry in manifest.queues)


def check(backup: BackupReader, progress: Progress) -> tuple[int, int]:
    """Read a whole backup and compare it with its manifest, without a cluster."""
    entries = backup.manifest.queues
    for number, entry in enumerate(entries, 1):
        progress(f"queue {number} of {len(entries)}: '{entry.name}', {entry.messages} messages")
        for _ in backup.rows(entry, backup_protocol.decode_queue_cut(entry.cut)):
            pass
    return len(entries), sum(entry.messages for entry in entries)


def _ask_metadata(cluster: ClusterAccess, part: str, backup: BackupReader) -> None:
    try:
        cluster.ask(backup_protocol.restore_metadata(part, backup.manifest.id), backup.metadata)
    except RequestRefused as error:
        raise BackupError(str(error)) from None


class _QueueRestore:
    """Restore of one queue."""

    def __init__(
        self, cluster: ClusterAccess, backup: BackupReader, entry: QueueEntry, batch_rows: int
    ) -> None:
        self._cluster = cluster
        self._backup = backup
        self._entry = entry
        self._batch_rows = batch_rows
        self._cut: QueueCut = backup_protocol.decode_queue_cut(entry.cut)

    def run(self) -> None:
        for attempt in range(ATTEMPTS):
            try:
                self._append(self._held())
                self._restore_state()
                self._verify()
                return
            except RequestRefused as error:
                # A repeated request finds the messages of the first one: compare, and continue after them.
                if error.reason != error_reasons.OTHER_MESSAGES or attempt == ATTEMPTS - 1:
                    raise BackupError(f"{self._entry.title}: {error}") from None

    def _rows(self) -> Iterator[BatchRow]:
        return self._backup.rows(self._entry, self._cut)

    def _restored(self) -> Iterator[BatchRow]:
        extent, _ = self._cluster.cut(self._entry.vhost, self._entry.name)
        for part in self._cluster.read(self._entry.vhost, self._entry.name, extent):
            yield from RangeBatch(part.batch)

    def _held(self) -> int:
        """Return how many messages an earlier attempt has restored; refuse other messages."""
        wanted, held = self._rows(), 0
        for row in self._restored():
            expected = next(wanted, None)
            if expected is None or (expected.envelope, expected.body) != (row.envelope, row.body):
                raise BackupError(
                    f"{self._entry.title} holds messages that are not of this backup, at place {held + 1};"
                    " keep clients away, delete it (mirrormqctl delete_queue) and run the restore again"
                )
            held += 1
        return held

    def _append(self, held: int) -> None:
        builder = BatchBuilder(with_ingestion_times=True)
        for row in islice(self._rows(), held, None):
            redelivered = bytes((row.redelivered,))
            builder.add((row.sequence,), ((row.envelope, 1),), redelivered, (row.body,), (row.ingested_ms,))
            if builder.rows >= self._batch_rows or builder.body_bytes >= BATCH_BYTES:
                held = self._send(builder, held)
                builder = BatchBuilder(with_ingestion_times=True)
        if builder.rows:
            self._send(builder, held)

    def _send(self, builder: BatchBuilder, held: int) -> int:
        request = backup_protocol.restore_messages(self._entry.vhost, self._entry.name, held)
        try:
            self._cluster.ask(request, builder.finish())
        except RequestRefused as error:
            if UNKNOWN_BATCH not in error.text:
                raise
            raise BackupError(
                f"{self._entry.title}: the nodes run an older version of MirrorMQ, which cannot"
                " store ingestion times; upgrade the nodes, or restore into a cluster of this version"
            ) from None
        return held + builder.rows

    def _restore_state(self) -> None:
        """Restore publish ids and leases."""
        entry, cut = self._entry, self._cut
        if cut.producers:
            request = backup_protocol.restore_queue_part(backup_protocol.PRODUCERS, entry.vhost, entry.name)
            self._cluster.ask(request, backup_protocol.encode(cut.producers))
        if cut.leases:
            renumbered = self._renumbered()
            request = backup_protocol.restore_queue_part(backup_protocol.LEASE, entry.vhost, entry.name)
            for lease in cut.leases:
                self._cluster.ask(request, backup_protocol.encode(_renumber(lease, renumbered)))

    def _renumbered(self) -> dict[int, int]:
        """Return the new sequence of each leased message by its old one."""
        leased = [span for lease in self._cut.leases for take in lease.takes for span in unpack(take.spans)]
        places = {number for first, count in leased for number in range(first, first + count)}
        return {
            old.sequence: new.sequence
            for old, new in zip(self._rows(), self._restored(), strict=True)
            if old.sequence in places
        }

    def _verify(self) -> None:
        digest = MessageDigest()
        for row in self._restored():
            digest.add(row)
        entry = self._entry
        if (digest.count, digest.hex()) != (entry.messages, entry.digest):
            raise BackupError(
                f"{entry.title} has {digest.count} messages after its restore, not the {entry.messages} of"
                " the backup, or other ones; keep clients away, delete the queue, and run the restore again"
            )


def _renumber(lease: LeaseCut, renumbered: dict[int, int]) -> LeaseCut:
    takes = []
    for take in lease.takes:
        numbers = [
            renumbered[number]
            for first, count in unpack(take.spans)
            for number in range(first, first + count)
            if number in renumbered
        ]
        if numbers:
            takes.append(TakeCut(take.number, pack(spans_of_unordered(numbers)), take.size_bytes))
    return LeaseCut(lease.name, lease.user, lease.number, lease.idle_ms, takes)
