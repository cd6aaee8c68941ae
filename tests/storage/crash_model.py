"""Random workload on a journal, with a model of the permitted and required state after a crash.

The model keeps, per queue, the messages that are live now and those that were live at the last completed
sync. After a crash a queue may hold anything that was live at that sync or was appended since. It must
hold everything that was live at that sync and was not acknowledged since. Any other state is a lost or a
resurrected message.
"""

from __future__ import annotations

import random

from mirrormq.queues.message import Message
from mirrormq.storage.journal import Journal
from tests.storage.support import PROPERTIES, content_frames, make_envelope, message

QUEUES = (1, 2, 3, 4)
FANOUT_BYTES = 150
"""Size of a content for several queues: larger than any other body, so that a test can let only these be
shared."""


class QueueModel:
    """Model of one queue."""

    def __init__(self) -> None:
        self.live: dict[int, bytes] = {}
        self.paged: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}
        self.synced_next = 1
        self.appended: dict[int, bytes] = {}
        """Messages appended since the last sync."""
        self.acknowledged: set[int] = set()
        """Messages acknowledged since the last sync."""
        self.used = 0
        self.durable_used = 0
        self.delivered = 0
        self.synced_delivered = 0
        self.erased_since_sync = False

    def sync(self) -> None:
        self.synced = dict(self.live)
        self.synced_next = max(self.synced_next, self.durable_used + 1)
        self.synced_delivered = self.delivered
        self.appended, self.acknowledged, self.erased_since_sync = {}, set(), False

    def append(self, sequence: int, frames: bytes, durable: bool) -> None:
        self.used = sequence
        if durable:
            self.live[sequence] = self.appended[sequence] = frames
            self.durable_used = sequence
        else:
            self.paged[sequence] = frames

    def forget(self, sequences: list[int]) -> None:
        for sequence in sequences:
            self.paged.pop(sequence, None)
            if self.live.pop(sequence, None) is not None:
                self.acknowledged.add(sequence)


class Workload:
    """Random operations on a journal, mirrored in the model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.queues = {queue_id: QueueModel() for queue_id in QUEUES}
        self.generation = 0
        self.torn: set[str] = set()
        """Segments that were the newest at a crash."""

    def run(self, journal: Journal, operations: int) -> None:
        """Run operations with odds that fill segments, drain them, and leave single live messages."""
        kinds = ["append"] * 8 + ["acknowledge"] * 6 + ["flush"] * 4
        kinds += [
            "write",
            "fanout",
            "fanout",
            "paged",
            "delivered",
            "housekeeping",
            "housekeeping",
            "housekeeping",
            "erase",
            "load",
        ]
        for _ in range(operations):
            getattr(self, self.random.choice(kinds))(journal)

    def _next(self, queue_id: int) -> Message:
        model = self.queues[queue_id]
        self.generation += 1
        return message(model.used + 1, f"{queue_id} {self.generation} " + "x" * self.random.randrange(60))

    def append(self, journal: Journal, durable: bool = True) -> None:
        queue_id = self.random.choice(QUEUES)
        batch = []
        for _ in range(self.random.randrange(1, 12)):
            batch.append(self._next(queue_id))
            self.queues[queue_id].append(batch[-1].sequence, batch[-1].frames, durable)
        journal.queue(queue_id).append(batch, durable=durable)

    def fanout(self, journal: Journal) -> None:
        """Append one large content to several queues, durable in some."""
        self.generation += 1
        frames = content_frames(f"fanout {self.generation} ".encode() + b"y" * FANOUT_BYTES)
        for queue_id in QUEUES:
            copy = Message(make_envelope(b"publish", PROPERTIES), frames)
            copy.sequence = self.queues[queue_id].used + 1
            durable = self.random.randrange(4) > 0
            self.queues[queue_id].append(copy.sequence, frames, durable)
            journal.queue(queue_id).append([copy], durable=durable)

    def paged(self, journal: Journal) -> None:
        self.append(journal, durable=False)

    def acknowledge(self, journal: Journal) -> None:
        queue_id = self.random.choice(QUEUES)
        model = self.queues[queue_id]
        stored = sorted([*model.live, *model.paged])
        if self.random.randrange(4):
            chosen = stored[: self.random.randrange(20)]
        else:
            chosen = [sequence for sequence in stored if self.random.randrange(3)]
        model.forget(chosen)
        journal.queue(queue_id).forget(chosen)

    def delivered(self, journal: Journal) -> None:
        queue_id = self.random.choice(QUEUES)
        model = self.queues[queue_id]
        if model.used:
            sequence = self.random.randrange(1, model.used + 1)
            model.delivered = max(model.delivered, sequence)
            journal.queue(queue_id).delivered(sequence)

    def flush(self, journal: Journal) -> None:
        journal.flush(sync=True)
        for model in self.queues.values():
            model.sync()

    def write(self, journal: Journal) -> None:
        journal.flush(sync=False)

    def housekeeping(self, journal: Journal) -> None:
        journal.housekeeping(500)

    def erase(self, journal: Journal) -> None:
        if self.random.randrange(3):
            return
        queue_id = self.random.choice(QUEUES)
        model = self.queues[queue_id]
        model.forget([*model.live, *model.paged])
        model.erased_since_sync = True
        model.synced_next = 1
        model.delivered = model.durable_used = 0
        journal.queue(queue_id).erase()

    def load(self, journal: Journal) -> None:
        for queue_id, model in self.queues.items():
            expected = {**model.live, **model.paged}
            found = journal.queue(queue_id).load(sorted(expected))
            assert {loaded.sequence: loaded.frames for loaded in found} == expected

    def check_recovered(self, journal: Journal) -> None:
        """Compare the model with a journal opened after a crash, and adopt the journal's state."""
        for queue_id, model in self.queues.items():
            store = journal.queue(queue_id)
            found = {loaded.sequence: loaded.frames for loaded in store.load(store.recovered())}
            possible = {**model.synced, **model.appended}
            risen = {
                sequence: frames for sequence, frames in found.items() if possible.get(sequence) != frames
            }
            assert not risen, f"queue {queue_id}: {sorted(risen)} came back or changed"
            lost = set(model.synced) - model.acknowledged - set(found)
            assert not lost, f"queue {queue_id}: {sorted(lost)} were synced and are lost"
            assert store.live_bytes == sum(loaded.body_size for loaded in store.load(store.recovered()))
            if not model.erased_since_sync:
                assert store.next_sequence >= model.synced_next
                if found:
                    in_reach = [s for s in found if s <= model.synced_delivered]
                    assert store.delivered_up_to >= max(in_reach, default=0)
            assert store.next_sequence <= model.used + 1
            model.live, model.paged, model.acknowledged = found, {}, set()
            model.durable_used = store.next_sequence - 1
            model.delivered = store.delivered_up_to
            model.sync()
