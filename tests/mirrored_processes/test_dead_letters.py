"""Messages expire, and the node dies on which they do so: all of them are in the dead letters' queue."""

from __future__ import annotations

import pika

from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import drain, mirror
from tests.seeds.seed_clients import channel
from tests.waiting import until

COUNT = 1000
DYING = pika.BasicProperties(delivery_mode=2, expiration="1000")
TO_THE_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def test_none_is_lost_when_the_master_is_killed_while_they_expire() -> None:
    with Cluster(nodes=3) as cluster:
        mirror(cluster, ha_mode="all")
        with channel(cluster, 1) as opened:
            opened.queue_declare("dead", durable=True)
        with channel(cluster, 0) as opened:
            opened.queue_declare("q", durable=True, arguments=TO_THE_DEAD)
        bodies = [b"%d" % number for number in range(COUNT)]
        with channel(cluster, 2) as opened:
            for body in bodies:
                opened.basic_publish("", "q", body, DYING)

        def dead() -> int:
            with channel(cluster, 1) as asking:
                return int(asking.queue_declare("dead", durable=True, passive=True).method.message_count)

        until(dead)
        cluster.kill(0)
        until(lambda: dead() >= COUNT)
        assert set(drain(cluster, "dead", node=2)) == set(bodies)
