"""`ha-redeliver`: what a failover does to consumers whose nodes live, with the master killed by SIGKILL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import PERSISTENT, mirror, publish, queue, synchronised
from tests.seeds.seed_clients import channel
from tests.waiting import until

HELD = 10
LOAD = 500
"""Messages that each consumer gets before the master is killed, and after it."""

PREFETCH = 20
PATIENCE_S = 60.0


class Seen:
    """Deliveries to one consumer that acknowledges nothing by itself."""

    def __init__(self, opened: BlockingChannel, name: str) -> None:
        self._connection = opened.connection
        self.tags: dict[bytes, int] = {}
        self.redelivered: list[bytes] = []
        opened.basic_consume(name, self._take)

    def _take(self, opened: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        self.tags[body] = method.delivery_tag
        if method.redelivered:
            self.redelivered.append(body)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until something is true of what has been seen."""

        def look() -> bool:
            self._connection.process_data_events(0.05)
            return condition()

        until(look)


def bodies(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def whole(cluster: Cluster, name: str) -> bool:
    return len(synchronised(cluster, name)) == 2


def test_a_consumer_keeps_what_it_holds() -> None:
    with Cluster(nodes=3) as cluster:
        mirror(cluster, ha_mode="all", ha_redeliver="lost")
        publish(cluster, "q", *bodies(0, HELD))
        until(lambda: whole(cluster, "q"))
        with channel(cluster, 1) as opened:
            seen = Seen(opened, "q")
            seen.wait(lambda: len(seen.tags) == HELD)
            cluster.kill(0)
            publish(cluster, "q", b"last", node=2)
            seen.wait(lambda: b"last" in seen.tags)
            assert not seen.redelivered

            opened.basic_nack(seen.tags[b"3"], requeue=True)
            seen.wait(lambda: bool(seen.redelivered))
            assert seen.redelivered == [b"3"]
            opened.basic_ack(seen.tags[b"3"], multiple=True)
            until(lambda: queue(cluster, "q", 1)["messages"] == 0)


def test_without_the_key_everything_unacknowledged_is_redelivered() -> None:
    with Cluster(nodes=3) as cluster:
        mirror(cluster, ha_mode="all")
        publish(cluster, "q", *bodies(0, HELD))
        until(lambda: whole(cluster, "q"))
        with channel(cluster, 1) as opened:
            seen = Seen(opened, "q")
            seen.wait(lambda: len(seen.tags) == HELD)
            cluster.kill(0)
            seen.wait(lambda: len(seen.redelivered) == HELD)
            assert seen.redelivered == bodies(0, HELD)


def test_only_what_lost_clients_held_is_redelivered() -> None:
    with Cluster(nodes=3) as cluster:
        mirror(cluster, ha_mode="all", ha_redeliver="lost")
        publish(cluster, "q", *bodies(0, 2 * HELD))
        until(lambda: whole(cluster, "q"))
        connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
        with channel(cluster, 1) as opened:
            lost_channel = connection.channel()
            lost_channel.basic_qos(prefetch_count=HELD)
            opened.basic_qos(prefetch_count=HELD)
            lost = Seen(lost_channel, "q")
            lost.wait(lambda: len(lost.tags) == HELD)
            seen = Seen(opened, "q")
            seen.wait(lambda: len(seen.tags) == HELD)
            cluster.kill(0)
            opened.basic_ack(0, multiple=True)
            seen.wait(lambda: len(seen.tags) == 2 * HELD)
            assert sorted(seen.redelivered) == sorted(lost.tags)


class Worker(threading.Thread):
    """Client of one node in a thread of its own; raises in `finish` what its work raised."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._node = node
        self._error: BaseException | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            with channel(self._cluster, self._node) as opened:
                self.work(opened)
        except BaseException as error:
            self._error = error

    def work(self, opened: BlockingChannel) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self.stopping.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error


class PublishingWorker(Worker):
    def __init__(self, cluster: Cluster, node: int, number: int) -> None:
        super().__init__(cluster, node)
        self._number = number
        self.sent: list[bytes] = []

    def work(self, opened: BlockingChannel) -> None:
        while not self.stopping.is_set():
            body = b"%d %d" % (self._number, len(self.sent))
            opened.basic_publish("", "q", body, PERSISTENT)
            self.sent.append(body)


class AckingWorker(Worker):
    def __init__(self, cluster: Cluster, node: int) -> None:
        super().__init__(cluster, node)
        self.seen: list[bytes] = []
        self.redelivered: list[bytes] = []

    def work(self, opened: BlockingChannel) -> None:
        opened.basic_qos(prefetch_count=PREFETCH)
        for method, _, body in opened.consume("q", inactivity_timeout=0.1):
            if method is not None:
                self.seen.append(body)
                if method.redelivered:
                    self.redelivered.append(body)
                opened.basic_ack(method.delivery_tag)
            elif self.stopping.is_set():
                opened.cancel()
                return


@pytest.mark.parametrize("attempt", range(3))
def test_under_load_nothing_is_redelivered(attempt: int) -> None:
    with Cluster(nodes=3) as cluster:
        mirror(cluster, ha_mode="all", ha_redeliver="lost")
        publish(cluster, "q")
        until(lambda: whole(cluster, "q"))
        publishers = [PublishingWorker(cluster, node, number) for number, node in enumerate((1, 2, 1, 2))]
        consumers = [AckingWorker(cluster, node) for node in (1, 2)]
        for worker in (*publishers, *consumers):
            worker.start()
        until(lambda: all(len(consumer.seen) >= LOAD for consumer in consumers))
        cluster.kill(0)
        before = [len(consumer.seen) for consumer in consumers]
        until(
            lambda: all(
                len(consumer.seen) >= LOAD + count for consumer, count in zip(consumers, before, strict=True)
            )
        )
        for publisher in publishers:
            publisher.finish()
        sent = [body for publisher in publishers for body in publisher.sent]
        until(lambda: sum(len(consumer.seen) for consumer in consumers) >= len(sent))
        until(lambda: queue(cluster, "q", 1)["messages"] == 0)
        for consumer in consumers:
            consumer.finish()
        seen = [body for consumer in consumers for body in consumer.seen]
        assert sorted(seen) == sorted(sent)
        assert [consumer.redelivered for consumer in consumers] == [[], []]
