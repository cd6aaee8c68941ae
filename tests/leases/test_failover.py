"""Leases on three real mirrored nodes whose masters are killed in the middle of takes and settles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mirrormq.ranges.stretches import unpack
from mirrormq.testing import Cluster
from tests.ranges.asking import Asker, Refused

MESSAGES = 1500
PER_TAKE = 100
KILL_IN_TAKE = 4
KILL_IN_SETTLE = 9
DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, mirror_all=True) as cluster:
        yield cluster


def wait_for_copies(asker: Asker, queue: str, count: int) -> list[str]:
    """Until so many nodes have everything; says which, the master first."""
    deadline = time.monotonic() + DEADLINE_S
    while len(names := asker.extent(queue).synchronised) != count:
        assert time.monotonic() < deadline, names
        asker.connection.sleep(0.1)
    return list(names)


def certain(asker: Asker, headers: dict[str, Any], meanwhile: Any = None) -> Any:
    """Ask until there is an answer, as a client does whose question may have been lost with a node."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        number = asker.put(headers)
        if meanwhile is not None:
            asker.connection.process_data_events(time_limit=0)
            meanwhile()
            meanwhile = None
        try:
            return asker.wait(number)
        except (Refused, KeyError) as error:
            assert time.monotonic() < deadline, error
            assert not isinstance(error, Refused) or error.code in (404, 406), error
            asker.connection.sleep(0.1)


def test_every_message_is_leased_once_whoever_dies(cluster: Cluster) -> None:
    index = {cluster.name(number): number for number in range(3)}
    asker = Asker(cluster.uri(2))
    first = Asker(cluster.uri(0))
    first.channel.queue_declare("once", durable=True)
    asker.channel.confirm_delivery()
    asker.publish("once", *[b"%d" % number for number in range(MESSAGES)])
    seen: list[bytes] = []
    dead: int | None = None
    for number in range(1, MESSAGES // PER_TAKE + 1):
        take = {"ask": "take", "queue": "once", "lease": "job", "number": number, "messages": PER_TAKE}
        settle = {"ask": "settle", "queue": "once", "lease": "job", "number": number}
        kill = None
        if number in (KILL_IN_TAKE, KILL_IN_SETTLE):
            if dead is not None:
                cluster.start(dead)
            master = wait_for_copies(asker, "once", 3)[0]
            dead = index[master]
            assert dead != 2, "the client's own node is to live"
            kill = lambda dead=dead: cluster.kill(dead)  # noqa: E731
        answer = certain(asker, take, kill if number == KILL_IN_TAKE else None)
        stretches = unpack(answer.body)
        seen += asker.bodies("once", stretches)
        assert unpack(certain(asker, take).body) == stretches, "the same number, the same messages"
        certain(asker, settle, kill if number == KILL_IN_SETTLE else None)
    assert sorted(seen, key=int) == [b"%d" % number for number in range(MESSAGES)]
    assert asker.take("once", "job", 99, 10) == []
    assert asker.drain("once") == []
    assert dead is not None
    cluster.start(dead)
    wait_for_copies(asker, "once", 3)
    extent = asker.extent("once")
    assert (extent.ready, asker.read("once", 0, extent.next)) == (0, [])


def test_every_copy_answers_and_a_lease_is_released_after_the_master_died(cluster: Cluster) -> None:
    askers = [Asker(cluster.uri(number)) for number in range(3)]
    askers[0].channel.queue_declare("copies", durable=True)
    askers[0].channel.confirm_delivery()
    bodies = [b"%d" % number for number in range(50)]
    askers[0].publish("copies", *bodies[:25])
    askers[0].publish("copies", *bodies[25:], mode=1)
    found = askers[1].take("copies", "job", 1, 30)
    for asker in askers:
        assert [row.body for row in asker.read("copies", 1, 51)] == bodies
        assert asker.bodies("copies", found) == bodies[:30]
        assert [lease.count for lease in asker.leases("copies")] == [30]
    extent = askers[2].extent("copies")
    assert extent.master == cluster.name(0)
    cluster.kill(0)
    assert askers[2].take("copies", "job", 1, 30) == found
    assert askers[1].bodies("copies", found) == bodies[:30]
    assert askers[1].release("copies", "job") == 30
    assert [body for body, _ in askers[1].drain("copies")] == bodies
    cluster.start(0)


def test_a_lease_outlives_all_nodes(cluster: Cluster) -> None:
    asker = Asker(cluster.uri(0))
    asker.channel.queue_declare("all", durable=True)
    asker.channel.confirm_delivery()
    asker.publish("all", *[b"%d" % number for number in range(20)])
    found = asker.take("all", "job", 1, 15)
    assert asker.settle("all", "job", to=6) == 5
    for number in range(3):
        cluster.kill(number)
    cluster.local.start_all()
    asker = Asker(cluster.uri(1))
    wait_for_copies(asker, "all", 3)
    assert found == [(1, 15)]
    assert asker.take("all", "job", 1, 15) == [(6, 10)]
    assert asker.bodies("all", [(6, 10)]) == [b"%d" % number for number in range(5, 15)]
    assert [body for body, _ in asker.drain("all")] == [b"%d" % number for number in range(15, 20)]
