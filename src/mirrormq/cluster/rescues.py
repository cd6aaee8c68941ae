"""Messages that a rescue leaves behind: they become orphans of the node whose disk holds them.

A rescue (`copy_records.Rescue`) promotes a copy that may lack messages which other disks hold. Either a
former member takes over from a master with a damaged journal, or the promotion timeout gave a node up. Every
other node with the queue in its journal compares sequences. The new master knows the sequences up to its last
message, and then uses those of its own epoch; it never sends any in between. A node sets messages with such
sequences aside before it joins the ring as a mirror. They return to the queue according to `ha-orphans`
(`orphan_restorer`).

The promoted copy may also lack messages below its last one: its journal was damaged, and so were those of
all other members. Different records are damaged on different disks. A member that was synchronised until the
promotion learns from the master which of its messages the master lacks, and sets these aside, too. Some of
them may have been acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirrormq.cluster.orphan_host import OrphanHost
from mirrormq.cluster.orphan_store import BATCH_MESSAGES
from mirrormq.events.log_buffer import MIRRORING
from mirrormq.metadata import records
from mirrormq.queues.message import Message
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.storage.queue_store import JournalQueue

if TYPE_CHECKING:
    from mirrormq.cluster.orphan_restorer import OrphanRestorer


class Rescues:
    """Rescues of queues of which this node may hold messages."""

    def __init__(self, broker: OrphanHost) -> None:
        self._broker = broker
        self._orphans: OrphanRestorer | None = None
        self._early: list[records.Queue] = []
        """Queues whose records arrived before the orphan store was attached."""
        self._filled: dict[int, int] = {}
        """Epoch of the latest rescue for which this node has set the missing messages aside, by queue."""

    def attach(self, orphans: OrphanRestorer) -> None:
        """Attach the orphan store. At this time no message from another node has arrived."""
        self._orphans = orphans
        early, self._early = self._early, []
        for record in early:
            self.follow(record)

    def follow(self, record: records.Queue) -> None:
        """Set aside messages of this node above the promoted copy if the queue was rescued."""
        rescue, store = record.rescue, self._broker.journal.queues.get(record.queue_id)
        if rescue is None or store is None:
            return
        first, end = rescue.highest_sequence + 1, first_sequence(rescue.epoch)
        left = [number for number in store.held() if first <= number < end]
        if not left:
            return
        if self._orphans is None:
            self._early.append(record)
            return
        self._set_aside(self._orphans, record, store, left, f"above the copy of {record.ring.master}, which")
        store.forget(left)

    def keep_surplus(self, queue_id: int, surplus: SequenceSet) -> None:
        """Set aside messages of this mirror that the master lacks, if a promoted copy may have lost them.
        The mirror drops them afterwards."""
        state = self._broker.metadata.state
        key, store = state.queue_keys.get(queue_id), self._broker.journal.queues.get(queue_id)
        record = state.queues[key] if key is not None else None
        rescue = record.rescue if record is not None else None
        if record is None or rescue is None or store is None or self._orphans is None:
            return
        # In a later comparison the surplus is what consumers have acknowledged since.
        if self._filled.get(queue_id) == rescue.epoch or not self._was_synchronised(record, rescue.version):
            return
        left = [number for number in store.held() if number <= rescue.highest_sequence and number in surplus]
        if left:
            self._set_aside(self._orphans, record, store, left, "that are missing in a damaged copy, which")
        self._filled[queue_id] = rescue.epoch

    def _was_synchronised(self, record: records.Queue, version: int) -> bool:
        """Return whether this node was synchronised until the view of this version."""
        me = self._broker.settings.name
        return any((former.node, former.version) == (me, version) for former in record.former)

    def _set_aside(
        self, orphans: OrphanRestorer, record: records.Queue, store: JournalQueue, left: list[int], which: str
    ) -> None:
        kept = orphans.set_aside(record, self._load(store, left))
        text = (
            f"Mirrored queue '{record.name}' in vhost '{record.vhost}': {kept} messages {which} was promoted "
            f"in epoch {record.rescue.epoch if record.rescue else 0}, are set aside as orphans"
        )
        self._broker.log_entries.add("warning", MIRRORING, text, vhost=record.vhost, queue=record.name)

    def _load(self, store: JournalQueue, numbers: list[int]) -> Iterator[Message]:
        """Read messages in batches, without those that are damaged on disk."""
        for at in range(0, len(numbers), BATCH_MESSAGES):
            some = numbers[at : at + BATCH_MESSAGES]
            intact = store.load_intact(some)
            if len(intact) < len(some):
                self._broker.log_entries.warn(f"{len(some) - len(intact)} damaged messages are not set aside")
            yield from intact
