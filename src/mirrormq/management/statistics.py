"""Totals and rates, from plain counters that are read every few seconds.

Nothing is counted here on the way of a message. Queues count what passes through them; channels know how
often they published and delivered. A sample remembers those numbers; a rate is the difference of the
last two samples over the time between them. Samples are taken in slices, so that ten thousand queues do
not hold up deliveries. What a deleted queue had counted stays in the totals of its vhost.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.store import INTERNAL_USER, Written

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.channels.channel import Channel
    from mirrormq.queues.queue import Queue

SLICE_OBJECTS = 500
"""Sampled between two turns of the loop: about a millisecond."""

QUEUE_NAMES = ("publish", "deliver_get", "ack", "redeliver")
LENGTH_NAMES = ("messages", "messages_ready", "messages_unacknowledged")
CHANNEL_NAMES = ("publish", "confirm", "deliver_get")

Numbers = tuple[int, ...]


class Sample(NamedTuple):
    """The numbers of one thing at one time, and how fast they were growing."""

    at_s: float
    numbers: Numbers
    rates: tuple[float, ...]


def queue_numbers(queue: Queue) -> Numbers:
    """What a queue has counted, then how long it is."""
    counters, backing = queue.counters, queue.backing
    ready, unacked = backing.ready_count, backing.unacked_count
    return (
        counters.published,
        counters.delivered,
        counters.acknowledged,
        counters.redelivered,
        ready + unacked,
        ready,
        unacked,
    )


def channel_numbers(channel: Channel) -> Numbers:
    """What a channel has counted."""
    ledger = channel.publishing.confirms
    confirmed = 0 if ledger is None else ledger.next_number - 1 - ledger.open_count
    return (channel.publishing.published, confirmed, channel.last_tag)


def with_rates(names: tuple[str, ...], numbers: Numbers, rates: tuple[float, ...]) -> dict[str, Any]:
    """Numbers under their names, each with its `_details`."""
    shown: dict[str, Any] = {}
    for name, number, rate in zip(names, numbers, rates, strict=True):
        shown[name] = number
        shown[f"{name}_details"] = {"rate": rate}
    return shown


class Statistics:
    """Samples of one broker's queues, channels and vhosts."""

    def __init__(self, broker: Broker, interval_s: float) -> None:
        self._broker = broker
        self.interval_s = interval_s
        self.sampled_at_s = 0.0
        self.watched = False
        """Somebody who looks closely takes the samples, and more often."""
        self._samples: WeakKeyDictionary[Any, Sample] = WeakKeyDictionary()
        self._vhosts: dict[str, Sample] = {}
        self._live: dict[tuple[str, str], Queue] = {}
        self._past: dict[str, Numbers] = {}
        """What deleted queues had counted, by vhost."""
        self.queues_created = 0
        self.queues_deleted = 0
        self.makers: dict[tuple[str, str], str] = {}
        """Who declared an exchange, as far as it happened since the start."""
        for vhost in broker.vhosts.values():
            for queue in vhost.local_queues():
                self._live[vhost.name, queue.name] = queue
        broker.metadata.listeners.append(self._follow)
        broker.metadata.observers.append(self._observe)

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            if not self.watched:
                await self.sample()
            await asyncio.sleep(self.interval_s)

    async def sample(self) -> None:
        """Read everything once."""
        for start in range(0, len(queues := list(self._live.values())), SLICE_OBJECTS):
            now_s = time.monotonic()
            for queue in queues[start : start + SLICE_OBJECTS]:
                self._take(queue, queue_numbers(queue), now_s)
            await asyncio.sleep(0)
        now_s = time.monotonic()
        for connection in list(self._broker.connections):
            for channel in connection.channels.values():
                self._take(channel, channel_numbers(channel), now_s)
        for name in list(self._broker.vhosts):
            self._vhosts[name] = _next(self._vhosts.get(name), await self.vhost_numbers(name), now_s)
        self.sampled_at_s = now_s

    def _take(self, thing: Any, numbers: Numbers, now_s: float) -> None:
        self._samples[thing] = _next(self._samples.get(thing), numbers, now_s)

    async def vhost_numbers(self, vhost: str) -> Numbers:
        """The sum over a vhost's queues, with those that are gone."""
        totals = list(self._past.get(vhost, (0,) * 7))
        live = self._broker.vhosts.get(vhost)
        queues = live.local_queues() if live is not None else []
        for start in range(0, len(queues), SLICE_OBJECTS):
            for queue in queues[start : start + SLICE_OBJECTS]:
                for index, number in enumerate(queue_numbers(queue)):
                    totals[index] += number
            await asyncio.sleep(0)
        return tuple(totals)

    # -- showing --------------------------------------------------------------------------------

    def last(self, queue: Queue) -> Sample | None:
        """A queue's last sample."""
        return self._samples.get(queue)

    def queue(self, queue: Queue) -> dict[str, Any]:
        """`message_stats`, if anything has happened, and the lengths with their rates."""
        numbers = queue_numbers(queue)
        sample = self._samples.get(queue)
        return _shown(numbers, sample.rates if sample is not None else (0.0,) * 7)

    def channel(self, channel: Channel) -> dict[str, Any]:
        """A channel's `message_stats`, if it has any."""
        numbers = channel_numbers(channel)
        if not any(numbers):
            return {}
        sample = self._samples.get(channel)
        rates = sample.rates if sample is not None else (0.0,) * len(numbers)
        return {"message_stats": with_rates(CHANNEL_NAMES, numbers, rates)}

    def vhosts(self, names: list[str]) -> dict[str, Any]:
        """The same for whole vhosts, as last sampled."""
        found = [self._vhosts[name] for name in names if name in self._vhosts]
        if not found or not any(self._has_had_queues(name) for name in names):
            return {}
        numbers = tuple(map(sum, zip(*(sample.numbers for sample in found), strict=True)))
        rates = tuple(map(sum, zip(*(sample.rates for sample in found), strict=True)))
        return _shown(numbers, rates)

    def _has_had_queues(self, vhost: str) -> bool:
        live = self._broker.vhosts.get(vhost)
        return vhost in self._past or (live is not None and bool(live.queues))

    # -- following ------------------------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        record = change.record
        if isinstance(record, records.Queue):
            self._follow_queue(record, isinstance(change, Deleted))
        elif isinstance(record, records.Exchange) and isinstance(change, Deleted):
            self.makers.pop(record.key, None)
        elif isinstance(record, records.Vhost) and isinstance(change, Deleted):
            self._past.pop(record.name, None)
            self._vhosts.pop(record.name, None)

    def _follow_queue(self, record: records.Queue, deleted: bool) -> None:
        if not deleted:
            vhost = self._broker.vhosts.get(record.vhost)
            live = vhost.local_queue(record.name) if vhost is not None else None
            if live is None:
                self._live.pop(record.key, None)
                return
            if record.key not in self._live:
                self.queues_created += 1
            self._live[record.key] = live
            return
        queue = self._live.pop(record.key, None)
        if queue is not None:
            self.queues_deleted += 1
            counters = queue.counters
            last = (counters.published, counters.delivered, counters.acknowledged, counters.redelivered)
            before = self._past.get(record.vhost, (0,) * 7)
            self._past[record.vhost] = tuple(map(sum, zip(before, (*last, 0, 0, 0), strict=True)))

    def _observe(self, written: Written) -> None:
        if written.actor == INTERNAL_USER:
            return
        for change in written.changes:
            if isinstance(change.record, records.Exchange) and not isinstance(change, Deleted):
                self.makers[change.record.key] = written.actor


def _next(before: Sample | None, numbers: Numbers, now_s: float) -> Sample:
    if before is None or now_s <= before.at_s:
        return Sample(now_s, numbers, (0.0,) * len(numbers))
    passed_s = now_s - before.at_s
    rates = tuple((new - old) / passed_s for new, old in zip(numbers, before.numbers, strict=True))
    return Sample(now_s, numbers, rates)


def _shown(numbers: Numbers, rates: tuple[float, ...]) -> dict[str, Any]:
    counted = len(QUEUE_NAMES)
    shown = with_rates(LENGTH_NAMES, numbers[counted:], rates[counted:])
    if any(numbers[:counted]):
        shown["message_stats"] = with_rates(QUEUE_NAMES, numbers[:counted], rates[:counted])
    return shown
