"""Repair of damaged messages: a node fetches good copies from the other members of a queue's ring.

Reads and the scrubber record damaged messages in `Journal.damage`. At the end of such a turn the node sends a
request to one member after another, synchronised members first. It rewrites the messages it receives, and the
queue serves them again at their positions. A message without a good copy on any member stays in place: it is
logged, counted (`mirrormq_scrub_damaged_messages`) and not served. The node sends requests again after
`RETRY_MS`, and when the ring changes.
"""

from __future__ import annotations

from mirrormq.errors import DamageError
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.remote.remote_messages import (
    AboutRepairs,
    FetchedMessages,
    FetchMessages,
    ItemStream,
    StoredMessage,
)
from mirrormq.replication.replication_host import ReplicationHost
from mirrormq.storage.journal_limits import PRODUCERS_ID
from mirrormq.wire.content import properties_of

FETCH_MESSAGES_MAX = 100
"""Messages in one request."""
FETCH_BYTES_MAX = 1 << 20
"""Bytes of contents in one reply; a single larger message is sent regardless."""
RETRY_MS = 60_000
"""Delay before members that had no good copy, or did not reply, get another request."""


class RecordRepair:
    """Repairs of one node, and its replies to the repairs of other nodes."""

    def __init__(self, broker: ReplicationHost) -> None:
        self._broker = broker
        self._asked: dict[int, set[str]] = {}
        """Members that got a request since the last success or retry, by queue."""
        self._batches: dict[int, list[int]] = {}
        """Messages that these requests name, by queue."""
        self._waiting: dict[int, str] = {}
        """Member whose reply is pending, by queue."""
        self._retry_planned = False
        self._reported: set[tuple[int, int]] = set()
        """Messages that the log has named; at most as many as `Journal.damage` remembers."""

    def request_damaged(self) -> None:
        """Request every damaged message of queues without a pending request."""
        damage = self._broker.journal.damage
        damage.unseen = False
        pending = damage.pending()
        known = {(queue_id, number) for queue_id, numbers in pending.items() for number in numbers}
        self._reported &= known
        damage.unrepairable &= known
        if producers := pending.pop(PRODUCERS_ID, None):
            self._broker.journal.producer_ids.rewrite_damaged(producers)
        for queue_id, sequences in pending.items():
            if queue_id not in self._waiting:
                self._ask(queue_id, sequences)
        if pending and not self._retry_planned:
            self._retry_planned = True
            self._broker.clock.at(self._broker.clock.now_ms + RETRY_MS, self._retry)

    def ring_changed(self, queue_id: int) -> None:
        """Request damaged messages again after a ring change: a new member may have good copies."""
        if self._broker.journal.damage.pending_count:
            self._asked.pop(queue_id, None)
            self._look_again()

    def _look_again(self) -> None:
        self._broker.journal.damage.unseen = True  # `request_damaged` runs at the end of this turn

    def _retry(self) -> None:
        self._retry_planned = False
        self._asked.clear()
        self._waiting.clear()
        self.request_damaged()

    def _ask(self, queue_id: int, sequences: list[int]) -> None:
        unrepairable, linked = self._broker.journal.damage.unrepairable, self._broker.remote.linked
        fresh = [number for number in sequences if (queue_id, number) not in unrepairable]
        batch = (fresh or sequences)[:FETCH_MESSAGES_MAX]
        if self._batches.get(queue_id) != batch:
            self._batches[queue_id] = batch
            self._asked.pop(queue_id, None)
        asked, full = self._asked.setdefault(queue_id, set()), False
        for member in self._members(queue_id):
            stream = linked.get(member)
            if member in asked or stream is None:
                continue
            if stream.writable:
                asked.add(member)
                self._waiting[queue_id] = member
                stream.put(FetchMessages(queue_id, batch))
                return
            stream.when_writable(self._look_again)
            full = full or stream.open
        if full:
            return
        if asked.issuperset(self._linked_members(queue_id)):
            self._broker.replica_manager.give_up(queue_id, batch)
        self._report(queue_id, batch)
        if fresh and asked.issuperset(self._members(queue_id)):
            unrepairable.update((queue_id, number) for number in batch)
            if len(fresh) > len(batch):
                self._ask(queue_id, sequences)

    def _report(self, queue_id: int, sequences: list[int]) -> None:
        fresh = [number for number in sequences if (queue_id, number) not in self._reported]
        if fresh:
            self._reported.update((queue_id, number) for number in fresh)
            some = ", ".join(map(str, fresh[:8]))
            self._broker.log_entries.warn(
                f"{self._title(queue_id)}: {len(fresh)} damaged message(s) have no good copy on another "
                f"node and are not served: {some}"
            )

    def _title(self, queue_id: int) -> str:
        key = self._broker.metadata.state.queue_keys.get(queue_id)
        return f"journal queue {queue_id}" if key is None else f"queue '{key[1]}' in vhost '{key[0]}'"

    def _members(self, queue_id: int) -> list[str]:
        """Return the other nodes with a copy, synchronised members first. A sequence identifies one message,
        so the copy of an unsynchronised mirror or of a former member is sufficient."""
        state, me = self._broker.metadata.state, self._broker.settings.name
        key = state.queue_keys.get(queue_id)
        if key is None:
            return []
        queue = state.queues[key]
        names = [*queue.ring.members, *(former.node for former in queue.former)]
        others = [name for name in dict.fromkeys(names) if name != me]
        return sorted(others, key=lambda name: name not in queue.ring.in_sync)

    def _linked_members(self, queue_id: int) -> list[str]:
        return [name for name in self._members(queue_id) if name in self._broker.remote.linked]

    # -- messages of other nodes ----------------------------------------------------------------

    def receive(self, stream: ItemStream, item: AboutRepairs) -> None:
        """Reply to a request, or apply a reply."""
        if isinstance(item, FetchMessages):
            stream.put(*self._answer(item))
            return
        if self._waiting.get(item.queue_id) != stream.peer:
            return
        del self._waiting[item.queue_id]
        repaired = self._rewrite(item)
        if repaired:
            self._asked.pop(item.queue_id, None)
            self._broker.log_entries.warn(
                f"{self._title(item.queue_id)}: {len(repaired)} damaged message(s) were replaced by good "
                f"copies from {stream.peer}"
            )
            self._readmit(item.queue_id, repaired)
        self.request_damaged()

    def _answer(self, request: FetchMessages) -> tuple[FetchedMessages, int]:
        found: list[StoredMessage] = []
        size = 0
        for message in self._load(request.queue_id, request.sequences[:FETCH_MESSAGES_MAX]):
            if found and size + len(message.frames) > FETCH_BYTES_MAX:
                break
            size += len(message.frames)
            found.append(
                StoredMessage(
                    message.sequence, message.envelope.publish, message.frames, message.expires_at,
                    message.ingested_ms,
                )
            )  # fmt: skip
        return FetchedMessages(request.queue_id, found), size

    def _load(self, queue_id: int, sequences: list[int]) -> list[Message]:
        """Return those messages of which this node has good copies."""
        replica, store = (
            self._broker.replica_manager.replicas.get(queue_id),
            self._broker.journal.queues.get(queue_id),
        )
        if store is None:
            return []
        if replica is not None and replica.backing is not None:
            held = replica.backing.held()
            return replica.backing.load([number for number in sequences if number in held])
        stored = [number for number in sequences if store.has(number)]
        try:
            found = store.load(stored)
        except DamageError as damage:
            lost = set(damage.sequences)
            found = store.load([number for number in stored if number not in lost])
        copy = replica.copy if replica is not None else None
        for number in sequences if copy is not None else ():
            if number not in stored:
                assert copy is not None
                found += copy.peek_unstored(number, number + 1, 1)
        return found

    def _rewrite(self, answer: FetchedMessages) -> list[int]:
        store = self._broker.journal.queues.get(answer.queue_id)
        pending = set(self._broker.journal.damage.pending().get(answer.queue_id, ()))
        repaired = []
        for copy in answer.messages:
            if store is None or copy.sequence not in pending:
                continue
            envelope = make_envelope(copy.publish, properties_of(copy.content))
            message = Message(envelope, copy.content, copy.expires_at)
            message.sequence, message.ingested_ms = copy.sequence, copy.ingested_ms
            if store.rewrite(message):
                repaired.append(copy.sequence)
        return repaired

    def _readmit(self, queue_id: int, sequences: list[int]) -> None:
        """Let the queue serve repaired messages if this node is its master."""
        key = self._broker.metadata.state.queue_keys.get(queue_id)
        vhost = self._broker.vhosts.get(key[0]) if key is not None else None
        queue = vhost.queues.get(key[1]) if vhost is not None and key is not None else None
        if isinstance(queue, Queue) and queue.backing.readmit(sequences):
            self._broker.wake(queue)
