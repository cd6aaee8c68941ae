"""Detailed statistics: rates per channel and exchange, channel and queue, and exchange and queue.

As in RabbitMQ, they exist only with `management.rates_mode = detailed`. The counters always run, but samples
are taken only in that mode; otherwise the lists are empty. The statistics of a channel end with it; those of
an exchange and a queue stay.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from mirrormq.connections.open_connections import open_channels, open_connections
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
"""Channels sampled between two passes of the event loop: about a millisecond."""

Side = Literal["exchange", "queue"]
Rows = list[dict[str, Any]]


class DetailedStatistics:
    """Samples of the detailed statistics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._channels: dict[Channel, dict[tuple[Side, str], SampleTrack]] = {}
        """Samples of channels that were open at the last sample."""
        self._routes: dict[tuple[str, str, str], SampleTrack] = {}
        """Samples by vhost, exchange and queue."""

    @property
    def entries(self) -> int:
        """Number of samples in memory."""
        of_channels = [track for tracks in list(self._channels.values()) for track in tracks.values()]
        return sum([track.entries for track in (*of_channels, *self._routes.values())])

    async def sample(self, crowded: bool) -> None:
        """Sample all counters once."""
        channels = open_channels(self._broker)
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
        """Return messages per existing exchange and queue, of open and closed channels."""
        routes = Counter(vhost.past_routes)
        for number, connection in enumerate(open_connections(self._broker)):
            if connection.vhost_name == vhost.name:
                for channel in connection.channels.values():
                    routes.update(channel.divided.routes)
            if number % SLICE_CHANNELS == SLICE_CHANNELS - 1:
                await asyncio.sleep(0)
        exchanges, queues = vhost.router.exchanges, vhost.queues
        return Counter(
            {pair: count for pair, count in routes.items() if pair[0] in exchanges and pair[1] in queues}
        )

    # -- queries --------------------------------------------------------------------------------

    def of_channel(self, channel: Channel, wanted: SampleRange | None) -> dict[str, Rows]:
        """Return the statistics of a channel by exchange and by queue."""
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
        """Return the channels of this node that use an exchange or a queue, and the messages by the other end
        of the route. The other end is an exchange for a queue, and a queue for an exchange."""
        users: Rows = []
        for number, connection in enumerate(open_connections(self._broker)):
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
    """Yield the counters of a channel by exchange and queue, without deleted ones."""
    divided, vhost = channel.divided, channel.vhost
    for name, put in divided.exchanges.items():
        if name in vhost.router.exchanges:
            yield ("exchange", name), (put.published, put.confirmed, put.returned, put.dropped)
    for name, taken in divided.queues.items():
        if name in vhost.queues:
            yield ("queue", name), counter_kinds.of_channel_at_queue(taken)


# -- all nodes ------------------------------------------------------------------------------------------


async def here(call: ApiRequest, vhost: str, side: Side, name: str) -> tuple[Rows, Rows]:
    """Return the statistics of this node's clients for an exchange or a queue."""
    places = call.statistics.places
    return ([], []) if places is None else await places.of_place(call, vhost, side, name)


async def on_all_nodes(call: ApiRequest, vhost: str, side: Side, name: str) -> tuple[Rows, Rows]:
    """Return the statistics of all nodes' clients for an exchange or a queue. Channels are listed one
    by one; messages per exchange and queue are added up."""
    if call.statistics.places is None:
        return [], []
    reported = await call.peer_client.ask_all("places", vhost=vhost, side=side, name=name, query=call.asked)
    parts = [await here(call, vhost, side, name), *reported.values()]
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
