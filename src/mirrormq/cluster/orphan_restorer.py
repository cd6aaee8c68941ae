"""Orphan restorer: republishes the orphans that this node has set aside, according to the queue's policy.

    ha-orphans: restore    (default) republish as soon as the healed queue takes messages
    ha-orphans: keep       leave in the store until an operator restores them

A queue that the other side does not know, because it was declared during the partition, is declared again
first. A queue that the other side deleted is not: its orphans stay in the store until an operator decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from mirrormq.cluster.orphan_host import OrphanHost
from mirrormq.cluster.orphan_republisher import OrphanRepublisher
from mirrormq.cluster.orphan_store import OrphanStore, OrphanTitle
from mirrormq.metadata import commands
from mirrormq.metadata.records import Queue
from mirrormq.metadata.store import INTERNAL_USER
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Publisher
from mirrormq.replication.queue_placement import placed_again

ATTEMPT_MS = 5_000
"""Interval between attempts to republish batches that are not republished completely."""

RESTORE = "restore"
"""Value of `ha-orphans` unless a policy sets `keep`."""


class OrphanRestorer:
    """Orphan batches of one node and their republishing."""

    def __init__(self, broker: OrphanHost, orphans: OrphanStore) -> None:
        self._broker = broker
        self.kept = orphans
        self._under_way: dict[int, OrphanRepublisher] = {}
        self._asked_for: set[int] = set()
        broker.rescues.attach(self)
        self.republish_due()

    def set_aside(self, record: Queue, messages: Iterable[Message]) -> int:
        """Store messages of a queue that only this node holds, plan their republishing, and return their
        number."""
        clock = self._broker.clock
        kept = self.kept.set_aside(record, self._broker.settings.name, clock.now_ms, False, messages)
        clock.at(clock.now_ms, self.republish_due)
        return kept

    def republish_due(self) -> None:
        """Republish every batch whose queue takes messages, and plan the next attempt."""
        for title in list(self.kept.titles.values()):
            if title.number not in self._under_way:
                self._consider(title)
        if self.kept.titles:
            self._broker.clock.at(self._broker.clock.now_ms + ATTEMPT_MS, self.republish_due)

    def restore(self, number: int) -> bool:
        """Republish a batch regardless of the policy; return False if no batch has this number."""
        if number not in self.kept.titles:
            return False
        self._asked_for.add(number)
        if number not in self._under_way:
            self._consider(self.kept.titles[number])
        return True

    def _consider(self, title: OrphanTitle) -> None:
        broker, record = self._broker, title.queue
        vhost = broker.vhosts.get(record.vhost)
        if vhost is None or not self._wanted(title):
            return
        if record.name not in vhost.queues:
            if title.created_in_partition or title.number in self._asked_for:
                self._declare_again(title)
            return
        publish = partial(self._publish, record.vhost, record.name)
        finished = partial(self._finished, title.number)
        batch = self._under_way[title.number] = OrphanRepublisher(self.kept, title.number, publish, finished)
        batch.resume()

    def _finished(self, number: int) -> None:
        self._under_way.pop(number, None)

    def _wanted(self, title: OrphanTitle) -> bool:
        if title.number in self._asked_for:
            return True
        definition = self._broker.policies.effective(title.queue.vhost, title.queue.name, "queues").definition
        return bool(definition.get("ha-orphans", RESTORE) == RESTORE)

    def _declare_again(self, title: OrphanTitle) -> None:
        command = commands.PutQueue(placed_again(self._broker, title.queue))
        self._broker.write(command, INTERNAL_USER, lambda: self._consider_again(title.number))

    def _consider_again(self, number: int) -> None:
        title = self.kept.titles.get(number)
        vhost = self._broker.vhosts.get(title.queue.vhost) if title is not None else None
        if title is not None and vhost is not None and title.queue.name in vhost.queues:
            self._consider(title)

    def _publish(
        self, vhost: str, name: str, messages: list[Message], publisher: Publisher, first: int
    ) -> None:
        found = self._broker.vhosts.get(vhost)
        queue = found.queues.get(name) if found is not None else None
        if queue is None:
            for at in range(len(messages)):
                publisher.refused(first + at)
        else:
            queue.publish(messages, publisher, first)
