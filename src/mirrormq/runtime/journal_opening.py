"""Starting on what the last run left: the journal is read, losses are told, nothing is thrown away unasked.

Queues that the journal has and the metadata has not were deleted just before a crash, so their
messages go. But if the metadata log itself has lost something, that may have been the queue's
declaration: then its messages are put into a queue of their own, where they can be looked at and moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrormq.cluster.orphan_collector import OrphanCollector
from mirrormq.config.settings import Settings
from mirrormq.metadata import commands, records
from mirrormq.metadata.store import MetadataStore
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.recovery_report import Dropped

LOST_QUEUE = "mirrormq.lost-queue.{}"


def recover(
    journal: Journal, metadata: MetadataStore, lost: Sequence[Dropped], settings: Settings, log: Any
) -> None:
    """Open the journal and make it agree with the metadata, of which `lost` could not be read."""
    report = journal.open()
    if report.index_ignored is not None:
        log.warning(f"the journal's index was not used: {report.index_ignored}")
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
    """What this node keeps of partitions that its side lost; the journal is open."""
    directory = str(settings.data_directory / "orphanage")  # the name that 0.1 gave this directory
    orphan_collector = OrphanCollector(settings.name, LocalDisk(), directory, journal)
    orphan_collector.open()
    return orphan_collector


def _adopt(journal: Journal, metadata: MetadataStore, settings: Settings, log: Any) -> None:
    """Give messages without a queue one that can be found."""
    state = metadata.state
    vhost = settings.default_vhost if settings.default_vhost in state.vhosts else next(iter(state.vhosts))
    known = {queue.queue_id for queue in state.queues.values()}
    for queue_id in sorted(set(journal.queues) - known):
        count = journal.queues[queue_id].live_count
        if count:
            name = LOST_QUEUE.format(queue_id)
            metadata.write(commands.PutQueue(records.Queue(vhost, name, queue_id, node=settings.name)))
            log.warning(
                f"the declaration of a queue with {count} messages was lost: "
                f"they are in '{name}' in vhost '{vhost}'"
            )
