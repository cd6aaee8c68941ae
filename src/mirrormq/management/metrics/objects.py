"""What connections, channels and queues have to tell, one by one or added up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mirrormq.management.metrics.names import METRICS
from mirrormq.management.metrics.sheet import Sheet, labels

if TYPE_CHECKING:
    from mirrormq.broker.counters import ChannelCounters, Traffic
    from mirrormq.channels.channel import Channel
    from mirrormq.connections.connection import Connection
    from mirrormq.management.seam import ManagedNode
    from mirrormq.queues.queue import Queue

SLICE_OBJECTS = 200
"""Told of between two turns of the loop: about a millisecond."""

SUMMED = [
    name for name in METRICS
    if name.startswith(("rabbitmq_channel_", "rabbitmq_connection_", "rabbitmq_queue_", "rabbitmq_consumer_"))
]  # fmt: skip
"""What objects tell; nought where there is no object."""

Numbers = Iterable[tuple[str, float]]
Thing = TypeVar("Thing")


def of_traffic(traffic: Traffic) -> Numbers:
    yield "rabbitmq_connection_incoming_bytes_total", traffic.received_bytes
    yield "rabbitmq_connection_incoming_packets_total", traffic.received_count
    yield "rabbitmq_connection_outgoing_bytes_total", traffic.sent_bytes
    yield "rabbitmq_connection_outgoing_packets_total", traffic.sent_count


def of_connection(connection: Connection) -> Numbers:
    yield from of_traffic(connection.traffic)
    yield "rabbitmq_connection_pending_packets", 0
    yield "rabbitmq_connection_channels", len(connection.channels)


def of_counters(counters: ChannelCounters) -> Numbers:
    yield "rabbitmq_channel_messages_published_total", counters.published
    yield "rabbitmq_channel_messages_confirmed_total", counters.confirmed
    yield "rabbitmq_channel_messages_unroutable_returned_total", counters.returned
    yield "rabbitmq_channel_messages_unroutable_dropped_total", counters.dropped
    yield "rabbitmq_channel_get_ack_total", counters.got
    yield "rabbitmq_channel_get_total", counters.got_no_ack
    yield "rabbitmq_channel_messages_delivered_ack_total", counters.delivered
    yield "rabbitmq_channel_messages_delivered_total", counters.delivered_no_ack
    yield "rabbitmq_channel_messages_redelivered_total", counters.redelivered
    yield "rabbitmq_channel_messages_acked_total", counters.acknowledged
    yield "rabbitmq_channel_get_empty_total", counters.got_empty


def of_channel(channel: Channel) -> Numbers:
    publishing = channel.publishing
    confirms, uncommitted = publishing.confirms, publishing.transaction or []
    yield "rabbitmq_channel_consumers", len(channel.consumers)
    yield "rabbitmq_channel_messages_unacked", len(channel.unacked.by_tag)
    yield "rabbitmq_channel_messages_unconfirmed", 0 if confirms is None else confirms.open_count
    yield "rabbitmq_channel_messages_uncommitted", sum([len(batch) for _, _, batch in uncommitted])
    yield "rabbitmq_channel_acks_uncommitted", sum([len(some) for _, some in publishing.settlements])
    yield "rabbitmq_consumer_prefetch", channel.consumer_prefetch
    yield "rabbitmq_channel_prefetch", channel.prefetch
    yield from of_counters(channel.counters)


def of_queue(queue: Queue) -> Numbers:
    backing = queue.backing
    ready, unacked = backing.ready_count, backing.unacked_count
    ready_bytes, unacked_bytes = backing.ready_bytes, backing.unacked_bytes
    yield "rabbitmq_queue_messages_ready", ready
    yield "rabbitmq_queue_messages_unacked", unacked
    yield "rabbitmq_queue_messages", ready + unacked
    yield "rabbitmq_queue_messages_ready_bytes", ready_bytes
    yield "rabbitmq_queue_messages_unacked_bytes", unacked_bytes
    yield "rabbitmq_queue_messages_bytes", ready_bytes + unacked_bytes
    yield "rabbitmq_queue_consumers", len(queue.consumers.all)
    yield "rabbitmq_queue_messages_published_total", queue.counters.published - queue.counters.own


class Objects:
    """What is there during one scrape."""

    def __init__(self, node: ManagedNode, sheet: Sheet, per_object: bool) -> None:
        self._broker = node.broker
        self._sheet = sheet
        self._per_object = per_object
        self.connections = list(node.broker.connections)
        self.channels = [channel for found in self.connections for channel in found.channels.values()]
        self.queues = [queue for vhost in node.broker.vhosts.values() for queue in vhost.local_queues()]

    async def tell(self) -> Counter[str]:
        """Everything there is, and its sums. What ended channels and connections had counted is in the sums
        of counters, so that those never shrink."""
        pids = self._broker.pids
        sums: Counter[str] = Counter(dict.fromkeys(SUMMED, 0))
        for vhost in self._broker.vhosts.values():
            sums.update(dict(of_counters(vhost.past)) | dict(of_traffic(vhost.past_traffic)))
        await self._each(
            self.connections, of_connection, lambda one: labels(channel=pids.of_connection(one)), sums
        )
        await self._each(self.channels, of_channel, lambda one: labels(channel=pids.of_channel(one)), sums)
        await self._each(self.queues, of_queue, lambda one: labels(vhost=one.vhost, queue=one.name), sums)
        if not self._per_object:
            lost = sums["rabbitmq_channel_messages_unroutable_dropped_total"]
            lost += sums["rabbitmq_channel_messages_unroutable_returned_total"]
            published = sums["rabbitmq_channel_messages_published_total"] - lost
            sums["rabbitmq_queue_messages_published_total"] = published
            for name, value in sums.items():
                self._sheet.add(name, value)
        return sums

    async def _each(
        self,
        things: Sequence[Thing],
        numbers: Callable[[Thing], Numbers],
        labelled: Callable[[Thing], str],
        sums: Counter[str],
    ) -> None:
        for start in range(0, len(things), SLICE_OBJECTS):
            for thing in things[start : start + SLICE_OBJECTS]:
                which = labelled(thing) if self._per_object else ""
                for name, value in numbers(thing):
                    sums[name] += value  # type: ignore[assignment]
                    if self._per_object:
                        self._sheet.add(name, value, which)
            await asyncio.sleep(0)
