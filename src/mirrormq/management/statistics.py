"""Statistics: totals, rates and histories from plain counters that are sampled every few seconds.

A sample stores the counters of an object. A rate is the difference of the last two samples divided by the
time between them; older samples are in `history`. Sampling is done in slices, so that ten thousand queues do
not delay deliveries. As in RabbitMQ, the totals of a vhost are those of its clients' channels, open or
closed. Therefore they do not decrease when a queue is deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mirrormq.connections.open_connections import open_connections
from mirrormq.management import counter_kinds
from mirrormq.management.counter_kinds import CounterKind
from mirrormq.management.detailed_statistics import DetailedStatistics
from mirrormq.management.sample_history import (
    BASIC,
    ENTRIES_MAX,
    GLOBAL,
    Numbers,
    SampleRange,
    SampleStep,
    SampleTrack,
    total,
)
from mirrormq.management.sample_ranges import NONE, SampleRanges
from mirrormq.management.stats_json import TrackedCounter, data, lengths, message_stats, with_details
from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.store import INTERNAL_USER, WriteResult

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.channels.channel import Channel
    from mirrormq.connections.connection import Connection
    from mirrormq.queues.queue import Queue

SLICE_OBJECTS = 500
"""Objects sampled between two passes of the event loop: about two milliseconds."""

Thing = TypeVar("Thing")


class Statistics:
    """Samples of one broker's objects."""

    def __init__(
        self,
        broker: Broker,
        interval_s: float,
        machine: Callable[[], Numbers],
        rates_mode: str,
    ) -> None:
        self._broker = broker
        self._rates_mode = rates_mode
        self.places = DetailedStatistics(broker) if rates_mode == "detailed" else None
        """Statistics between channels, exchanges and queues; None unless `rates_mode` is `detailed`."""
        self.interval_s = interval_s
        self.sampled_at_s = 0.0
        self.watched = False
        """Whether an observer takes the samples itself, more often than the interval."""
        self._tracks: dict[Any, SampleTrack] = {}
        """Samples of objects that existed at the last sample."""
        self._vhosts: dict[str, SampleTrack] = {}
        self._machine = machine
        self._begin()
        self._crowded = False
        """Whether the number of samples exceeds `ENTRIES_MAX`."""
        self._had_queues: set[str] = set()
        """Vhosts that have or had queues."""
        self.makers: dict[tuple[str, str], str] = {}
        """Users who declared exchanges since the node's start, by exchange."""
        self._had_queues.update(vhost for vhost, _ in broker.metadata.state.queues)
        broker.metadata.listeners.append(self._follow)
        broker.metadata.observers.append(self._observe)

    def _begin(self) -> None:
        self._tracks.clear()
        self._vhosts.clear()
        self._node = SampleTrack(len(counter_kinds.MACHINE), GLOBAL)
        self._churn = SampleTrack(len(counter_kinds.CHURN), GLOBAL)
        self._disk = SampleTrack(len(counter_kinds.DISK), GLOBAL)

    async def start_anew(self) -> None:
        """Drop samples and rates. The counters belong to the broker and continue."""
        self._begin()
        if self.places is not None:
            self.places = DetailedStatistics(self._broker)
        await self.sample()

    def detach(self) -> None:
        """Stop following the metadata of a broker that has stopped."""
        self._broker.metadata.listeners.remove(self._follow)
        self._broker.metadata.observers.remove(self._observe)

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            if not self.watched or time.monotonic() - self.sampled_at_s > self.interval_s:
                await self.sample()
            await asyncio.sleep(self.interval_s)

    # -- sampling -------------------------------------------------------------------------------

    async def sample(self) -> None:
        """Sample all counters once."""
        broker, vhosts = self._broker, list(self._broker.vhosts.values())
        tracks: dict[Any, SampleTrack] = {}
        queues = [queue for vhost in vhosts for queue in vhost.local_queues()]
        await self._take(tracks, queues, counter_kinds.of_queue, GLOBAL)
        exchanges = [exchange for vhost in vhosts for exchange in vhost.router.exchanges.values()]
        await self._take(tracks, exchanges, counter_kinds.of_exchange, GLOBAL)
        connections = open_connections(broker)
        await self._take(tracks, connections, lambda connection: counter_kinds.of_traffic(connection.traffic))
        channels = [channel for connection in connections for channel in connection.channels.values()]
        await self._take(tracks, channels, lambda channel: counter_kinds.of_channel(channel.counters))
        self._tracks = tracks
        now_s, wall_s = time.monotonic(), time.time()
        for name, numbers in (await self.vhost_numbers()).items():
            track = self._vhosts.get(name)
            if track is None:
                track = self._vhosts[name] = SampleTrack(counter_kinds.VHOST.width, GLOBAL)
            track.take(now_s, wall_s, numbers, crowded=False)
        for track, numbers in (
            (self._node, self._machine()),
            (self._churn, counter_kinds.of_churn(broker.events.churn)),
            (self._disk, (broker.journal.loader.messages_read, broker.journal.writer.messages_written)),
        ):
            track.take(now_s, wall_s, numbers, crowded=False)
        entries = sum([track.entries for track in list(self._tracks.values())])
        if self.places is not None:
            await self.places.sample(self._crowded)
            entries += self.places.entries
        self._crowded = entries > ENTRIES_MAX
        self.sampled_at_s = now_s

    async def _take(
        self,
        tracks: dict[Any, SampleTrack],
        things: Sequence[Thing],
        numbers: Callable[[Thing], Numbers],
        steps: tuple[SampleStep, ...] = BASIC,
    ) -> None:
        for start in range(0, len(things), SLICE_OBJECTS):
            now_s, wall_s = time.monotonic(), time.time()
            for thing in things[start : start + SLICE_OBJECTS]:
                found = numbers(thing)
                track = tracks[thing] = self._tracks.get(thing) or SampleTrack(len(found), steps)
                track.take(now_s, wall_s, found, self._crowded)
            await asyncio.sleep(0)

    async def vhost_numbers(self) -> dict[str, Numbers]:
        """Return counters of clients' channels, queue lengths and connection traffic by vhost."""
        found = {
            name: [
                *counter_kinds.of_channel(vhost.past),
                0,
                0,
                0,
                *counter_kinds.of_traffic(vhost.past_traffic),
            ]
            for name, vhost in self._broker.vhosts.items()
        }
        connections = open_connections(self._broker)
        for start in range(0, len(connections), SLICE_OBJECTS):
            for connection in connections[start : start + SLICE_OBJECTS]:
                if connection.vhost_name in found:
                    _add_connection(found[connection.vhost_name], connection)
            await asyncio.sleep(0)
        for name, totals in found.items():
            vhost = self._broker.vhosts.get(name)
            queues = vhost.local_queues() if vhost is not None else []
            for start in range(0, len(queues), SLICE_OBJECTS):
                for queue in queues[start : start + SLICE_OBJECTS]:
                    _add(
                        totals,
                        counter_kinds.VHOST.lengths_at,
                        counter_kinds.of_queue(queue)[counter_kinds.QUEUE.lengths_at :],
                    )
                await asyncio.sleep(0)
        return {name: tuple(totals) for name, totals in found.items()}

    # -- queries --------------------------------------------------------------------------------

    def _messages(
        self, kind: CounterKind, numbers: Numbers, track: TrackedCounter | None, wanted: SampleRange | None
    ) -> dict[str, Any]:
        """Return `message_stats`, unless `rates_mode` is `none`."""
        return {} if self._rates_mode == "none" else message_stats(kind, numbers, track, wanted)

    def last(self, queue: Queue) -> SampleTrack | None:
        """Return a queue's last sample."""
        return self._tracks.get(queue)

    def queue(self, queue: Queue, ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return `message_stats`, if a message was counted, and the queue lengths with their rates."""
        track, numbers = self._tracks.get(queue), counter_kinds.of_queue(queue)
        shown = self._messages(counter_kinds.QUEUE, numbers, track, ranges.msg_rates)
        return shown | lengths(counter_kinds.QUEUE, numbers, track, ranges.lengths)

    def channel(self, channel: Channel, ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return a channel's `message_stats`, if it has any."""
        numbers = counter_kinds.of_channel(channel.counters)
        return self._messages(counter_kinds.CHANNEL, numbers, self._tracks.get(channel), ranges.msg_rates)

    def exchange(self, vhost: str, name: str, ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return an exchange's `message_stats`, if it has any."""
        live = self._broker.vhosts.get(vhost)
        exchange = live.router.exchanges.get(name) if live is not None else None
        if exchange is None:
            return {}
        numbers = counter_kinds.of_exchange(exchange)
        return self._messages(counter_kinds.EXCHANGE, numbers, self._tracks.get(exchange), ranges.msg_rates)

    def connection(self, connection: Connection, ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return the traffic of a connection."""
        traffic = connection.traffic
        track = self._tracks.get(connection)
        shown = with_details(
            counter_kinds.DATA, counter_kinds.of_traffic(traffic), track, 0, ranges.data_rates
        )
        return {**shown, "recv_cnt": traffic.received_count, "send_cnt": traffic.sent_count}

    def vhosts(self, names: Iterable[str], ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return the totals of vhosts as of the last sample."""
        names = list(names)
        track = _Sum(
            [self._vhosts[name] for name in names if name in self._vhosts], counter_kinds.VHOST.width
        )
        shown = self._messages(counter_kinds.VHOST, track.numbers, track, ranges.msg_rates)
        if self._had_queues.intersection(names):
            shown |= lengths(counter_kinds.VHOST, track.numbers, track, ranges.lengths)
        return shown | data(counter_kinds.VHOST, track.numbers, track, ranges.data_rates)

    @property
    def disk_used(self) -> bool:
        """Whether the journal has read or written a message."""
        return any(self._disk.numbers)

    def disk(self, ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return messages written to the journal and read from it."""
        return with_details(counter_kinds.DISK, self._disk.numbers, self._disk, 0, ranges.msg_rates)

    def churn(self, wanted: SampleRange | None = None) -> dict[str, Any]:
        """Return the churn counters of connections, channels and queues."""
        return with_details(
            counter_kinds.CHURN, counter_kinds.of_churn(self._broker.events.churn), self._churn, 0, wanted
        )

    def node(self, ranges: SampleRanges = NONE) -> dict[str, Any]:
        """Return the node's use of machine resources."""
        return with_details(counter_kinds.MACHINE, self._machine(), self._node, 0, ranges.node_stats)

    # -- metadata changes -----------------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        record = change.record
        if isinstance(record, records.Queue):
            self._had_queues.add(record.vhost)
        elif isinstance(record, records.Exchange) and isinstance(change, Deleted):
            self.makers.pop(record.key, None)
        elif isinstance(record, records.Vhost) and isinstance(change, Deleted):
            self._had_queues.discard(record.name)
            self._vhosts.pop(record.name, None)

    def _observe(self, written: WriteResult) -> None:
        if written.actor == INTERNAL_USER:
            return
        for change in written.changes:
            if isinstance(change.record, records.Exchange) and not isinstance(change, Deleted):
                self.makers[change.record.key] = written.actor


class _Sum:
    """Sum of several tracks."""

    def __init__(self, tracks: list[SampleTrack], width: int) -> None:
        self._tracks = tracks
        nothing = (0,) * width
        self.numbers: Numbers = tuple(
            map(sum, zip(nothing, *[track.numbers for track in tracks], strict=True))
        )
        self.rates: tuple[float, ...] = tuple(
            map(sum, zip(nothing, *[track.rates for track in tracks], strict=True))
        )
        self._nothing = nothing

    def samples(self, wanted: SampleRange, wall_s: float) -> tuple[list[int], list[Numbers]]:
        found = [track.samples(wanted, wall_s) for track in self._tracks]
        if not found:
            times, _ = SampleTrack(0).samples(wanted, wall_s)
            return times, [self._nothing] * len(times)
        return found[0][0], total([rows for _, rows in found])


def _add(totals: list[int], at: int, numbers: Sequence[int]) -> None:
    for index, number in enumerate(numbers, at):
        totals[index] += number


def _add_connection(totals: list[int], connection: Connection) -> None:
    for channel in connection.channels.values():
        if not channel.closing:
            _add(totals, 0, counter_kinds.of_channel(channel.counters))
    _add(totals, counter_kinds.VHOST.data_at, counter_kinds.of_traffic(connection.traffic))
