"""Metrics of connections, channels and queues, per object or summed."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mirrormq.connections.open_connections import open_connections
from mirrormq.control.queue_info import queue_facts
from mirrormq.management.metrics.exposition import Exposition, labels
from mirrormq.management.metrics.metric_names import METRICS

if TYPE_CHECKING:
    from mirrormq.broker.traffic_counters import ChannelCounters, ExchangeCounts, QueueCounts, Traffic
    from mirrormq.channels.channel import Channel
    from mirrormq.connections.connection import Connection
    from mirrormq.management.managed_node import ManagedNode
    from mirrormq.queues.queue import Queue

SLICE_OBJECTS = 50
"""Objects reported between two turns of the loop: about a millisecond."""

SLICE_CHANNELS = 20
"""Channels reported between two turns with all their exchanges and queues, of which few have more than a
dozen."""

SUMMED = [
    name for name in METRICS
    if name.startswith(("rabbitmq_channel_", "rabbitmq_connection_", "rabbitmq_queue_", "rabbitmq_consumer_"))
]  # fmt: skip
"""Metrics of objects; their sum is 0 without objects."""

NO_SUM = ("rabbitmq_queue_consumer_capacity", "rabbitmq_queue_head_message_timestamp")
"""Metrics that exist per queue only; RabbitMQ lists them without a sample."""

QUEUE_FACTS = {
    "consumer_capacity": "consumer_capacity", "consumer_utilisation": "consumer_utilisation",
    "disk_reads_total": "disk_reads", "disk_writes_total": "disk_writes",
    "head_message_timestamp": "head_message_timestamp", "messages_paged_out": "messages_paged_out",
    "messages_paged_out_bytes": "message_bytes_paged_out", "messages_persistent": "messages_persistent",
    "messages_persistent_bytes": "message_bytes_persistent", "messages_ram": "messages_ram",
    "messages_ram_bytes": "message_bytes_ram", "messages_ready_ram": "messages_ready_ram",
    "messages_unacked_ram": "messages_unacknowledged_ram", "process_memory_bytes": "memory",
}  # fmt: skip
"""Metrics of a queue, with their names in `queue_facts`."""

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
    yield "rabbitmq_queue_messages_published_total", counters.routed


def of_channel(channel: Channel) -> Numbers:
    publishing = channel.publishing
    confirms, uncommitted = publishing.confirms, publishing.transaction or []
    yield "rabbitmq_channel_consumers", len(channel.consumers)
    yield "rabbitmq_channel_messages_unacked", len(channel.unacked.by_tag)
    yield "rabbitmq_channel_messages_unconfirmed", 0 if confirms is None else confirms.open_count
    yield "rabbitmq_channel_messages_uncommitted", sum([len(batch) for _, _, batch in uncommitted])
    yield (
        "rabbitmq_channel_acks_uncommitted",
        sum([len(deliveries) for _, deliveries in publishing.settlements]),
    )
    yield "rabbitmq_consumer_prefetch", channel.consumer_prefetch
    yield "rabbitmq_channel_prefetch", channel.prefetch


def of_exchange(counts: ExchangeCounts) -> Numbers:
    """Yield the counts of a channel at one exchange."""
    yield "rabbitmq_channel_messages_published_total", counts.published
    yield "rabbitmq_channel_messages_confirmed_total", counts.confirmed
    yield "rabbitmq_channel_messages_unroutable_returned_total", counts.returned
    yield "rabbitmq_channel_messages_unroutable_dropped_total", counts.dropped


def of_queue_use(counts: QueueCounts) -> Numbers:
    """Yield the counts of a channel at one queue."""
    yield "rabbitmq_channel_get_ack_total", counts.got
    yield "rabbitmq_channel_get_total", counts.got_no_ack
    yield "rabbitmq_channel_messages_delivered_ack_total", counts.delivered
    yield "rabbitmq_channel_messages_delivered_total", counts.delivered_no_ack
    yield "rabbitmq_channel_messages_redelivered_total", counts.redelivered
    yield "rabbitmq_channel_messages_acked_total", counts.acknowledged
    yield "rabbitmq_channel_get_empty_total", counts.got_empty


def of_queue(queue: Queue, now_ms: int) -> Numbers:
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
    facts = queue_facts(queue, now_ms)
    for name, fact in QUEUE_FACTS.items():
        value = facts[fact]
        yield f"rabbitmq_queue_{name}", math.nan if value is None else value


class ObjectMetrics:
    """Objects of one scrape."""

    def __init__(
        self, node: ManagedNode, exposition: Exposition, per_object: bool, vhosts: Collection[str] = ()
    ) -> None:
        self._broker = node.broker
        self._exposition = exposition
        self._per_object = per_object
        self.connections = open_connections(node.broker)
        self.channels = [channel for found in self.connections for channel in found.channels.values()]
        chosen = [vhost for name, vhost in node.broker.vhosts.items() if not vhosts or name in vhosts]
        self.queues = [queue for vhost in chosen for queue in vhost.local_queues()]

    async def collect(self) -> Counter[str]:
        """Add all samples and return the sums. Counters of closed channels and connections stay in the
        sums, so that these never decrease."""
        pids = self._broker.pids
        sums: Counter[str] = Counter(dict.fromkeys(SUMMED, 0))
        for vhost in self._broker.vhosts.values():
            sums.update(dict(of_counters(vhost.past)) | dict(of_traffic(vhost.past_traffic)))
        await self._each(
            self.connections,
            of_connection,
            lambda connection: labels(channel=pids.of_connection(connection)),
            sums,
        )
        await self._each(
            self.channels, of_channel, lambda channel: labels(channel=pids.of_channel(channel)), sums
        )
        await self._count_channels(sums)
        now_ms = self._broker.clock.now_ms
        await self._each(
            self.queues,
            lambda queue: of_queue(queue, now_ms),
            lambda queue: labels(vhost=queue.vhost, queue=queue.name),
            sums,
        )
        if not self._per_object:
            for name, value in sums.items():
                if name in NO_SUM:
                    self._exposition.announce(name)
                else:
                    self._exposition.add(name, value)
        return sums

    async def _count_channels(self, sums: Counter[str]) -> None:
        """Add the channels' counters, per exchange and queue if `per_object`."""
        for start in range(0, len(self.channels), SLICE_CHANNELS):
            for channel in self.channels[start : start + SLICE_CHANNELS]:
                sums.update(dict(of_counters(channel.counters)))
                if self._per_object:
                    self._divide(channel)
            await asyncio.sleep(0)

    def _divide(self, channel: Channel) -> None:
        """Add samples per exchange and queue that still exist: RabbitMQ drops deleted ones."""
        pid, divided, vhost = self._broker.pids.of_channel(channel), channel.divided, channel.vhost
        exchanges, queues, where = vhost.router.exchanges, vhost.queues, channel.connection.vhost_name
        for exchange, put in divided.exchanges.items():
            if exchange in exchanges:
                self._add(of_exchange(put), labels(channel=pid, vhost=where, exchange=exchange))
        for queue, taken in divided.queues.items():
            if queue in queues:
                self._add(of_queue_use(taken), labels(channel=pid, vhost=where, queue=queue))
        for (exchange, queue), count in divided.routes.items():
            if exchange in exchanges and queue in queues:
                which = labels(
                    channel=pid, queue_vhost=where, queue=queue, exchange_vhost=where, exchange=exchange
                )
                self._exposition.add("rabbitmq_queue_messages_published_total", count, which)

    def _add(self, numbers: Numbers, which: str) -> None:
        for name, value in numbers:
            self._exposition.add(name, value, which)

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
                        self._exposition.add(name, value, which)
            await asyncio.sleep(0)
