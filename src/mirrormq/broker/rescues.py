"""Messages that a rescue leaves behind: they become orphans of the node whose disk holds them.

A rescue (`copy_records.Rescue`) promotes a copy that may lack messages which other disks hold. Either a
former member takes over from a master with a damaged journal, or the promotion timeout gave a node up. Every
other node with the queue in its journal compares sequences. The new master knows the sequences up to its last
message, and then uses those of its own epoch; it never sends any in between. A node sets messages with such
sequences aside before it joins the ring as a mirror. They return to the queue according to `ha-orphans`
(`orphan_restorer`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirrormq.cluster.orphan_store import BATCH_MESSAGES
from mirrormq.events.log_buffer import MIRRORING
from mirrormq.metadata import records
from mirrormq.queues.message import Message
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.storage.queue_store import JournalQueue

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.orphan_restorer import OrphanRestorer


class Rescues:
    """Rescues of queues of which this node may hold messages."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._orphans: OrphanRestorer | None = None
        self._early: list[records.Queue] = []
        """Queues whose records arrived before the orphan store was attached."""

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
        kept = self._orphans.set_aside(record, self._load(store, left))
        store.forget(left)
        text = (
            f"Mirrored queue '{record.name}' in vhost '{record.vhost}': {kept} messages above the copy of "
            f"{record.ring.master}, which was promoted in epoch {rescue.epoch}, are set aside as orphans"
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
