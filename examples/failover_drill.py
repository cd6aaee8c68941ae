"""Failover drill: kill the master of a mirrored queue while messages are published and confirmed.

The publisher repeats each message until it is confirmed, on any running node. Afterwards every confirmed
message is in the queue. A message whose confirm was lost with the node may be in it twice: consumers
recognise it by its number.

python examples/failover_drill.py
"""

from __future__ import annotations

import itertools
import time

import pika

from mirrormq.testing import Cluster

QUEUE = "drill"
COUNT = 1000
KILL_AT = 400
GIVE_UP_S = 40


class Publisher:
    """Publisher with confirms that continues on the next node when one is lost."""

    def __init__(self, uris: list[str]) -> None:
        self._uris = itertools.cycle(uris)
        self._channel = self._open()

    def _open(self) -> pika.adapters.blocking_connection.BlockingChannel:
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            try:
                connection = pika.BlockingConnection(pika.URLParameters(next(self._uris)))
                channel = connection.channel()
                channel.queue_declare(QUEUE, durable=True)
                channel.confirm_delivery()
                return channel
            except pika.exceptions.AMQPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def publish(self, number: int) -> None:
        """Publish and return when the message is confirmed: on the disk of every synchronised mirror."""
        while True:
            try:
                properties = pika.BasicProperties(delivery_mode=2, message_id=str(number))
                self._channel.basic_publish("", QUEUE, b"drill", properties, mandatory=True)
                return
            except pika.exceptions.AMQPError:
                self._channel = self._open()


def main() -> None:
    with Cluster(nodes=3, mirror_all=True) as cluster:
        publisher = Publisher([cluster.uri(index) for index in range(3)])
        longest_s = 0.0
        for number in range(COUNT):
            if number == KILL_AT:
                print(f"{number} messages are confirmed; killing {cluster.name(0)}, the master")
                cluster.kill(0)
            began = time.monotonic()
            publisher.publish(number)
            longest_s = max(longest_s, time.monotonic() - began)
        print(f"{COUNT} messages are confirmed; the longest wait for one was {longest_s * 1000:.0f} ms")
        cluster.start(0)
        print(f"{cluster.name(0)} is back, as a mirror")
        channel = pika.BlockingConnection(pika.URLParameters(cluster.uri(0))).channel()
        seen: set[int] = set()
        while (found := channel.basic_get(QUEUE, auto_ack=True))[0] is not None:
            seen.add(int(found[1].message_id))
        lost = COUNT - len(seen)
        print(
            f"{len(seen)} different messages came out: {'none is lost' if not lost else f'{lost} are LOST'}"
        )


if __name__ == "__main__":
    main()
