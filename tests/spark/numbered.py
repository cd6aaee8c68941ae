"""Messages that are numbers: one of a pair of queues has the even ones, the other the odd ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pika
from pika.adapters.blocking_connection import BlockingChannel as Channel

DAY_S = 86_400


@contextmanager
def declared(uri: str, queues: Sequence[str], more: str) -> Iterator[Channel]:
    """A channel and these queues, durable; at the end they are gone, and so is the one that a test adds."""
    # Without heartbeats: nobody reads from this connection while Spark is at work.
    connection = pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0"))
    channel = connection.channel()
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    yield channel
    for queue in (*queues, more):
        channel.queue_delete(queue)
    connection.close()


def publish(channel: Channel, queues: tuple[str, str], numbers: range, day: int = 0) -> None:
    """Each number to one queue, the even ones to the first, with a stamp of that day."""
    for number in numbers:
        stamp = pika.BasicProperties(timestamp=day * DAY_S + number, headers={"n": str(number)})
        channel.basic_publish("", queues[number % 2], b"%d" % number, stamp)
    channel.queue_declare(queues[0], passive=True)


def drain(channel: Channel, queue: str) -> list[bytes]:
    """The bodies of all that is in a queue."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found
