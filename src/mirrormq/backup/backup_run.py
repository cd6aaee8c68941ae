"""Backup of a running cluster: metadata first, then one queue after the other.

A queue's state is cut at one moment on its master. The backup then holds every message that was in the queue
at that moment and was not acknowledged before it was read; unacknowledged messages are among them. Messages
published later are absent. Publishers and consumers go on.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from mirrormq.backup.backup_files import (
    METADATA,
    QUEUES,
    VERSION,
    BackupError,
    BackupWriter,
    Manifest,
    MessageDigest,
    QueueEntry,
    UnsettledRows,
    write_batch,
)
from mirrormq.backup.cluster_access import ClusterAccess
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.ranges import backup_protocol, error_reasons
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.spark.client.client_errors import RequestRefused

Progress = Callable[[str], None]

MASTER_TIMEOUT_S = 60.0
"""Time to wait for a queue without a reachable master: longer than a failover takes."""


def back_up(cluster: ClusterAccess, writer: BackupWriter, progress: Progress) -> Manifest:
    """Write a backup of the whole cluster; return its manifest."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        snapshot = bytes(cluster.ask(backup_protocol.backup_metadata()).body)
    except RequestRefused as error:
        raise BackupError(f"{error}") from None
    writer.write(METADATA, snapshot)
    cluster.meet_nodes()
    records = [
        queue for queue in MetadataState.from_snapshot(snapshot).queues.values() if not queue.exclusive
    ]
    entries = []
    for number, queue in enumerate(records, 1):
        progress(f"queue {number} of {len(records)}: '{queue.name}'")
        file = f"{QUEUES}/{number:06}"
        entry = _back_up_queue(cluster, writer, queue, file)
        if entry is not None:
            entries.append(entry)
    digest = hashlib.sha256(snapshot).hexdigest()
    manifest = Manifest(VERSION, secrets.token_hex(8), created, digest, entries)
    writer.finish(manifest)
    return manifest


def _back_up_queue(
    cluster: ClusterAccess, writer: BackupWriter, queue: Queue, file_name: str
) -> QueueEntry | None:
    """Write the messages of one queue; None if the queue was deleted meanwhile."""
    deadline_s = time.monotonic() + MASTER_TIMEOUT_S
    while True:
        try:
            extent, cut = cluster.cut(queue.vhost, queue.name)
            break
        except RequestRefused as error:
            if error.reason == error_reasons.NO_QUEUE:
                return None
            if time.monotonic() >= deadline_s:
                raise BackupError(f"{error}; start the nodes that hold this queue") from None
    unsettled, digest, damaged = UnsettledRows(cut), MessageDigest(), 0
    with writer.open(file_name) as file:
        try:
            for batch, left_out in cluster.read(queue.vhost, queue.name, extent):
                for row in unsettled.of(RangeBatch(batch)):
                    digest.add(row)
                write_batch(file, batch)
                damaged += left_out
        except RequestRefused as error:
            raise BackupError(f"queue '{queue.name}' in vhost '{queue.vhost}': {error}") from None
        writer.sync(file)
    return QueueEntry(
        queue.vhost, queue.name, file_name, digest.count, digest.body_bytes, digest.hex(),
        backup_protocol.encode(cut), damaged,
    )  # fmt: skip
