"""Journal opening at node start: recover the journal, log losses, discard nothing without cause.

A queue that is in the journal but not in the metadata was deleted just before a crash; its messages are
discarded. But if the metadata log itself has lost entries, the queue's declaration may be among them. Its
messages then go to a separate queue, where the operator can inspect and move them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.cluster.orphan_collector import OrphanCollector
from mirrormq.config.settings import Settings
from mirrormq.metadata import commands, records
from mirrormq.metadata.store import MetadataStore
from mirrormq.runtime.log_output import Logger
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.recovery_report import Dropped

LOST_QUEUE = "mirrormq.lost-queue.{}"


def recover(
    journal: Journal, metadata: MetadataStore, lost: Sequence[Dropped], settings: Settings, log: Logger
) -> None:
    """Open the journal and reconcile it with the metadata. `lost` lists the unreadable parts of the
    metadata."""
    report = journal.open()
    if report.index_ignored is not None:
        log.warning(f"journal index not used: {report.index_ignored}")
    for dropped in (*lost, *report.dropped):
        log.warning(
            f"recovery dropped {dropped.length} bytes at {dropped.offset} of {dropped.path}: {dropped.reason}"
        )
    if report.messages:
        log.info(f"recovered {report.messages} messages in {report.queues} queues")
    if lost:
        _adopt(journal, metadata, settings, log)
    journal.forget_unknown([queue.queue_id for queue in metadata.state.queues.values()])


def open_orphan_collector(settings: Settings, journal: Journal) -> OrphanCollector:
    """Open the store of orphans from partitions that this node's side lost. The journal must be open."""
    directory = str(settings.data_directory / "orphanage")  # directory name since version 0.1
    orphan_collector = OrphanCollector(settings.name, LocalDisk(), directory, journal)
    orphan_collector.open()
    return orphan_collector


def _adopt(journal: Journal, metadata: MetadataStore, settings: Settings, log: Logger) -> None:
    """Declare a queue for each set of messages whose queue declaration was lost."""
    state = metadata.state
    vhost = settings.default_vhost if settings.default_vhost in state.vhosts else next(iter(state.vhosts))
    known = {queue.queue_id for queue in state.queues.values()}
    for queue_id in sorted(set(journal.queues) - known):
        count = journal.queues[queue_id].live_count
        if count:
            name = LOST_QUEUE.format(queue_id)
            metadata.write(commands.PutQueue(records.Queue(vhost, name, queue_id, node=settings.name)))
            log.warning(
                f"the declaration of a queue was lost: its {count} messages "
                f"are in '{name}' in vhost '{vhost}'"
            )
