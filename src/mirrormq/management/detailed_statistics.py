"""The finest statistics: what one channel put into one exchange or took from one queue, and how much went
from an exchange to a queue.

RabbitMQ shows them with `management.rates_mode = detailed` only, and so does this: the counters are there in
any case, but samples of them are taken only then, and without that setting the lists are empty. What is told
of a channel ends with it; what went from an exchange to a queue stays.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from mirrormq.management import counter_kinds, object_json
from mirrormq.management.peer_client import merged
from mirrormq.management.sample_history import DETAILED, Numbers, SampleRange, SampleTrack
from mirrormq.management.stats_json import with_details

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.vhost import Vhost
    from mirrormq.channels.channel import Channel
    from mirrormq.management.api_request import ApiRequest

SLICE_CHANNELS = 50
"""Looked at between two turns of the loop: about a millisecond."""

Side = Literal["exchange", "queue"]
Rows = list[dict[str, Any]]


class DetailedStatistics:
    """Samples of the finest statistics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._channels: dict[Channel, dict[tuple[Side, str], SampleTrack]] = {}
        """Of channels that were open at the last sample."""
        self._routes: dict[tuple[str, str, str], SampleTrack] = {}
        """By vhost, exchange and queue."""

    @property
    def entries(self) -> int:
        """How much is remembered."""
        of_channels = [track for tracks in list(self._channels.values()) for track in tracks.values()]
        return sum([track.entries for track in (*of_channels, *self._routes.values())])

    async def sample(self, crowded: bool) -> None:
        """Read everything once."""
        channels = [channel for each in list(self._broker.connections) for channel in each.channels.values()]
        of_channels: dict[Channel, dict[tuple[Side, str], SampleTrack]] = {}
        for start in range(0, len(channels), SLICE_CHANNELS):
            now_s, wall_s = time.monotonic(), time.time()
            for channel in channels[start : start + SLICE_CHANNELS]:
                tracks, before = {}, self._channels.get(channel, {})
                for place, numbers in _places(channel):
                    tracks[place] = before.get(place) or SampleTrack(len(numbers), DETAILED)
                    tracks[place].take(now_s, wall_s, numbers, crowded)
                of_channels[channel] = tracks
            await asyncio.sleep(0)
        self._channels = of_channels
        await self._sample_routes(crowded)

    async def _sample_routes(self, crowded: bool) -> None:
        tracks: dict[tuple[str, str, str], SampleTrack] = {}
        for vhost in list(self._broker.vhosts.values()):
            routes = await self._counted(vhost)
            now_s, wall_s = time.monotonic(), time.time()
            for (exchange, queue), count in routes.items():
                key = (vhost.name, exchange, queue)
                tracks[key] = self._routes.get(key) or SampleTrack(1, DETAILED)
                tracks[key].take(now_s, wall_s, (count,), crowded)
            await asyncio.sleep(0)
        self._routes = tracks

    async def _counted(self, vhost: Vhost) -> Counter[tuple[str, str]]:
        """Messages from exchanges to queues that are there still, of channels open and closed."""
        routes = Counter(vhost.past_routes)
        for number, connection in enumerate(list(self._broker.connections)):
            if connection.vhost_name == vhost.name:
                for channel in connection.channels.values():
                    routes.update(channel.divided.routes)
            if number % SLICE_CHANNELS == SLICE_CHANNELS - 1:
                await asyncio.sleep(0)
        exchanges, queues = vhost.router.exchanges, vhost.queues
        return Counter(
            {pair: count for pair, count in routes.items() if pair[0] in exchanges and pair[1] in queues}
        )

    # -- showing --------------------------------------------------------------------------------

    def of_channel(self, channel: Channel, wanted: SampleRange | None) -> dict[str, Rows]:
        """What a channel has put where and taken from where."""
        shown: dict[Side, Rows] = {"exchange": [], "queue": []}
        vhost = channel.connection.vhost_name
        for (side, name), numbers in sorted(_places(channel)):
            row = {
                side: {"name": name, "vhost": vhost},
                "stats": self._stats(channel, side, name, numbers, wanted),
            }
            shown[side].append(row)
        return {"publishes": shown["exchange"], "deliveries": shown["queue"]}

    async def of_place(self, call: ApiRequest, vhost: str, side: Side, name: str) -> tuple[Rows, Rows]:
        """Which channels of this node use an exchange or a queue; and how much of what they published came to
        the queue from where, or went from the exchange to where."""
        users: Rows = []
        for number, connection in enumerate(list(self._broker.connections)):
            if connection.vhost_name == vhost:
                users += self._users(call, connection.channels.values(), side, name)
            if number % SLICE_CHANNELS == SLICE_CHANNELS - 1:
                await asyncio.sleep(0)
        found = self._broker.vhosts.get(vhost)
        routes: Rows = []
        for (exchange, queue), count in (
            sorted((await self._counted(found)).items()) if found is not None else ()
        ):
            if name == (exchange if side == "exchange" else queue):
                other, called = ("queue", queue) if side == "exchange" else ("exchange", exchange)
                track = self._routes.get((vhost, exchange, queue))
                stats = with_details(("publish",), (count,), track, 0, call.ranges.msg_rates)
                routes.append({other: {"name": called, "vhost": vhost}, "stats": stats})
        return users, routes

    def _users(
        self, call: ApiRequest, channels: Iterable[Channel], side: Side, name: str
    ) -> Iterator[dict[str, Any]]:
        for channel in channels:
            for place, numbers in _places(channel):
                if place == (side, name):
                    yield {
                        "channel_details": object_json.channel_details(call, channel),
                        "stats": self._stats(channel, side, name, numbers, call.ranges.msg_rates),
                    }

    def _stats(
        self, channel: Channel, side: Side, name: str, numbers: Numbers, wanted: SampleRange | None
    ) -> dict[str, Any]:
        names = counter_kinds.PUBLISH if side == "exchange" else counter_kinds.DELIVER
        return with_details(names, numbers, self._channels.get(channel, {}).get((side, name)), 0, wanted)


def _places(channel: Channel) -> Iterator[tuple[tuple[Side, str], Numbers]]:
    """Where a channel has been, as far as it is there still, and what it did."""
    divided, vhost = channel.divided, channel.vhost
    for name, put in divided.exchanges.items():
        if name in vhost.router.exchanges:
            yield ("exchange", name), (put.published, put.confirmed, put.returned, put.dropped)
    for name, taken in divided.queues.items():
        if name in vhost.queues:
            yield ("queue", name), counter_kinds.of_channel_at_queue(taken)


# -- of all nodes ---------------------------------------------------------------------------------------


async def here(call: ApiRequest, vhost: str, side: Side, name: str) -> tuple[Rows, Rows]:
    """What this node's clients did at an exchange or a queue."""
    places = call.statistics.places
    return ([], []) if places is None else await places.of_place(call, vhost, side, name)


async def on_all_nodes(call: ApiRequest, vhost: str, side: Side, name: str) -> tuple[Rows, Rows]:
    """The same of all nodes' clients: channels one by one; what went from an exchange to a queue is added."""
    if call.statistics.places is None:
        return [], []
    told = await call.peer_client.ask_all("places", vhost=vhost, side=side, name=name, query=call.asked)
    parts = [await here(call, vhost, side, name), *told.values()]
    other = "queue" if side == "exchange" else "exchange"
    routes: dict[str, list[dict[str, Any]]] = {}
    for _, rows in parts:
        for row in rows:
            routes.setdefault(row[other]["name"], []).append(row["stats"])
    users = sorted(
        [row for rows, _ in parts for row in rows], key=lambda row: str(row["channel_details"]["name"])
    )
    return users, [
        {other: {"name": called, "vhost": vhost}, "stats": merged(stats)}
        for called, stats in sorted(routes.items())
    ]
