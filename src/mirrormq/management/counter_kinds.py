"""Layout of the counters of each kind of object: tuples of numbers, in the order of their names.

Queues, channels, exchanges and connections count per batch; this module only reads their counters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mirrormq.management.sample_history import Numbers

if TYPE_CHECKING:
    from mirrormq.broker.traffic_counters import ChannelCounters, QueueCounts, Traffic
    from mirrormq.events.churn import Churn
    from mirrormq.exchanges.exchange import Exchange
    from mirrormq.queues.queue import Queue

PUBLISH = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVER = ("ack", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "deliver_get")
LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
DATA = ("recv_oct", "send_oct")
DISK = ("disk_reads", "disk_writes")


class CounterKind(NamedTuple):
    """Layout of the numbers of one kind of object."""

    groups: tuple[tuple[int, tuple[str, ...]], ...]
    """Start index and names of each group that RabbitMQ shows or omits as a whole in `message_stats`."""
    lengths_at: int = 0
    """Start index of the queue lengths; 0 if there are none."""
    data_at: int = 0
    """Start index of the byte counts; 0 if there are none."""
    width: int = 0


_CHANNEL_WIDTH = len(PUBLISH) + len(DELIVER)
_QUEUE_WIDTH = 1 + len(DELIVER)
_CHANNEL_GROUPS = ((0, PUBLISH), (len(PUBLISH), DELIVER))

QUEUE = CounterKind(((0, ("publish",)), (1, DELIVER)), lengths_at=_QUEUE_WIDTH)
CHANNEL = CounterKind(_CHANNEL_GROUPS)
EXCHANGE = CounterKind(((0, ("publish_in", "publish_out")),))
VHOST = CounterKind(
    _CHANNEL_GROUPS, _CHANNEL_WIDTH, _CHANNEL_WIDTH + len(LENGTHS), _CHANNEL_WIDTH + len(LENGTHS) + len(DATA)
)
CHURN = (
    "channel_closed", "channel_created", "connection_closed", "connection_created", "queue_created",
    "queue_declared", "queue_deleted",
)  # fmt: skip

MACHINE = (
    "mem_used", "disk_free", "fd_used", "sockets_used",
    "io_read_count", "io_read_bytes", "io_write_count", "io_write_bytes", "io_sync_count",
)  # fmt: skip


def of_queue(queue: Queue) -> Numbers:
    counters, backing = queue.counters, queue.backing
    ready, unacked = backing.ready_count, backing.unacked_count
    delivered = counters.delivered + counters.delivered_no_ack + counters.got + counters.got_no_ack
    return (
        counters.published - counters.own, counters.acknowledged, counters.delivered,
        counters.delivered_no_ack, counters.got, counters.got_no_ack, counters.got_empty,
        counters.redelivered, delivered, ready + unacked, ready, unacked,
    )  # fmt: skip


def of_channel(counters: ChannelCounters) -> Numbers:
    delivered = counters.delivered + counters.delivered_no_ack + counters.got + counters.got_no_ack
    return (
        counters.published, counters.confirmed, counters.returned, counters.dropped,
        counters.acknowledged, counters.delivered, counters.delivered_no_ack, counters.got,
        counters.got_no_ack, counters.got_empty, counters.redelivered, delivered,
    )  # fmt: skip


def of_channel_at_queue(counts: QueueCounts) -> Numbers:
    delivered = counts.delivered + counts.delivered_no_ack + counts.got + counts.got_no_ack
    return (
        counts.acknowledged, counts.delivered, counts.delivered_no_ack, counts.got, counts.got_no_ack,
        counts.got_empty, counts.redelivered, delivered,
    )  # fmt: skip


def of_exchange(exchange: Exchange) -> Numbers:
    return exchange.published_in, exchange.published_out


def of_traffic(traffic: Traffic) -> Numbers:
    return traffic.received_bytes, traffic.sent_bytes


def of_churn(churn: Churn) -> Numbers:
    return tuple([getattr(churn, name) for name in CHURN])
