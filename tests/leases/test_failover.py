"""Leases on three real mirrored nodes whose masters are killed during takes and settles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mirrormq.sequences.spans import Span, unpack
from mirrormq.testing import Cluster
from tests.ranges.range_requests import Asker, Refused

MESSAGES = 1500
PER_TAKE = 100
KILL_IN_TAKE = 4
KILL_IN_SETTLE = 9
DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, mirror_all=True) as cluster:
        yield cluster


def wait_for_copies(range_client: Asker, queue: str, count: int) -> list[str]:
    """Wait until `count` nodes are synchronised. Return them, the master first."""
    deadline = time.monotonic() + DEADLINE_S
    while len(names := range_client.extent(queue).synchronised) != count:
        assert time.monotonic() < deadline, names
        range_client.connection.sleep(0.1)
    return list(names)


def certain(range_client: Asker, headers: dict[str, Any], meanwhile: Any = None) -> Any:
    """Repeat a request until there is a reply, like a client whose request may have been lost with a node."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        number = range_client.put(headers)
        if meanwhile is not None:
            range_client.connection.process_data_events(time_limit=0)
            meanwhile()
            meanwhile = None
        try:
            return range_client.wait(number)
        except (Refused, KeyError) as error:
            assert time.monotonic() < deadline, error
            assert not isinstance(error, Refused) or error.code in (404, 406), error
            range_client.connection.sleep(0.1)


def test_every_message_is_leased_once_for_any_failing_node(cluster: Cluster) -> None:
    index = {cluster.name(number): number for number in range(3)}
    range_client = Asker(cluster.uri(2))
    first = Asker(cluster.uri(0))
    first.channel.queue_declare("once", durable=True)
    range_client.channel.confirm_delivery()
    range_client.publish("once", *[b"%d" % number for number in range(MESSAGES)])
    seen: list[bytes] = []
    dead: int | None = None
    for number in range(1, MESSAGES // PER_TAKE + 1):
        take = {"ask": "take", "queue": "once", "lease": "job", "number": number, "messages": PER_TAKE}
        settle = {"ask": "settle", "queue": "once", "lease": "job", "number": number}
        kill = None
        if number in (KILL_IN_TAKE, KILL_IN_SETTLE):
            if dead is not None:
                cluster.start(dead)
            master = wait_for_copies(range_client, "once", 3)[0]
            dead = index[master]
            assert dead != 2, "the client's own node is to live"
            kill = lambda dead=dead: cluster.kill(dead)  # noqa: E731
        answer = certain(range_client, take, kill if number == KILL_IN_TAKE else None)
        spans = unpack(answer.body)
        seen += range_client.bodies("once", spans)
        assert unpack(certain(range_client, take).body) == spans, "the same number, the same messages"
        certain(range_client, settle, kill if number == KILL_IN_SETTLE else None)
    assert sorted(seen, key=int) == [b"%d" % number for number in range(MESSAGES)]
    assert range_client.take("once", "job", 99, 10) == []
    assert range_client.drain("once") == []
    assert dead is not None
    cluster.start(dead)
    wait_for_copies(range_client, "once", 3)
    extent = range_client.extent("once")
    assert (extent.ready, range_client.read("once", 0, extent.next)) == (0, [])


def test_every_copy_answers_and_a_lease_is_released_after_the_master_died(cluster: Cluster) -> None:
    range_clients = [Asker(cluster.uri(number)) for number in range(3)]
    range_clients[0].channel.queue_declare("copies", durable=True)
    range_clients[0].channel.confirm_delivery()
    bodies = [b"%d" % number for number in range(50)]
    range_clients[0].publish("copies", *bodies[:25])
    range_clients[0].publish("copies", *bodies[25:], mode=1)
    found = range_clients[1].take("copies", "job", 1, 30)
    for range_client in range_clients:
        assert [row.body for row in range_client.read("copies", 1, 51)] == bodies
        assert range_client.bodies("copies", found) == bodies[:30]
        assert [lease.count for lease in range_client.leases("copies")] == [30]
    extent = range_clients[2].extent("copies")
    assert extent.master == cluster.name(0)
    cluster.kill(0)
    assert range_clients[2].take("copies", "job", 1, 30) == found
    assert range_clients[1].bodies("copies", found) == bodies[:30]
    assert range_clients[1].release("copies", "job") == 30
    assert [body for body, _ in range_clients[1].drain("copies")] == bodies
    cluster.start(0)


def test_a_lease_outlives_all_nodes(cluster: Cluster) -> None:
    range_client = Asker(cluster.uri(0))
    range_client.channel.queue_declare("all", durable=True)
    range_client.channel.confirm_delivery()
    range_client.publish("all", *[b"%d" % number for number in range(20)])
    found = range_client.take("all", "job", 1, 15)
    assert range_client.settle("all", "job", to=6) == 5
    for number in range(3):
        cluster.kill(number)
    cluster.local.start_all()
    range_client = Asker(cluster.uri(1))
    wait_for_copies(range_client, "all", 3)
    assert found == [(1, 15)]
    assert range_client.take("all", "job", 1, 15) == [(6, 10)]
    assert range_client.bodies("all", [Span(6, 10)]) == [b"%d" % number for number in range(5, 15)]
    assert [body for body, _ in range_client.drain("all")] == [b"%d" % number for number in range(15, 20)]
