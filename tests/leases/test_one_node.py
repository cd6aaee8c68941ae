"""Leases on one real node: taken once, kept, settled, released, across restarts of client and node."""

from __future__ import annotations

import time

import pytest

from mirrormq.ranges import range_limits
from mirrormq.sequences.spans import Span, count_of, digest, pack
from tests.brokers.mirrormq import MirrorMQ
from tests.ranges.range_requests import Asker, Refused, bodies

DEADLINE_S = 60.0
LIFETIME_MS = 4000
"""Lifetime in milliseconds: far longer than publishing and leasing a few messages on a busy machine."""
IDLE_MS = 4000
"""Idle limit in milliseconds: far longer than the pause between two requests."""


def connect(mirrormq: MirrorMQ) -> Asker:
    return Asker(f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F")


def counts(range_client: Asker, queue: str) -> int:
    return int(range_client.channel.queue_declare(queue, passive=True).method.message_count)


@pytest.mark.parametrize("mode", [1, 2])
def test_a_take_leaves_the_queue_and_is_read_by_its_spans(range_client: Asker, queue: str, mode: int) -> None:
    range_client.publish(queue, *bodies(100), mode=mode)
    found = range_client.take(queue, "job", 1, 60)
    assert found == [(1, 60)]
    assert counts(range_client, queue) == 40
    assert range_client.bodies(queue, found) == bodies(60)
    assert not any(row.redelivered for row in range_client.read(queue, 1, 61)), "nobody has had them before"
    assert range_client.drain(queue) == [(body, False) for body in bodies(40, 60)]
    assert range_client.settle(queue, "job", number=1) == 60
    assert range_client.read(queue, 1, 101) == []
    assert range_client.settle(queue, "job", number=1) == 0, "once more changes nothing"


def test_a_repeated_number_gets_the_first_answer(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(30))
    first = range_client.take(queue, "job", 1, 10)
    assert range_client.take(queue, "job", 1, 10) == first
    second = range_client.take(queue, "job", 2, 10)
    assert second == [(11, 10)]
    assert range_client.take(queue, "job", 1, 5) == first
    assert range_client.settle(queue, "job", number=1) == 10
    assert range_client.take(queue, "job", 2, 99) == second
    with pytest.raises(Refused, match="take 1 of lease 'job' is settled; the last take was 2"):
        range_client.take(queue, "job", 1, 10)


def test_only_the_takes_that_are_meant_are_settled(range_client: Asker, queue: str) -> None:
    """Check that a client that received other messages under this number cannot settle these."""
    range_client.publish(queue, *bodies(30))
    takes = [pack(range_client.take(queue, "job", number, 10)) for number in (1, 2)]
    with pytest.raises(Refused, match="lease 'job' has other messages up to take 2"):
        range_client.settle(queue, "job", number=2, digest=digest(takes[:1]))
    assert counts(range_client, queue) == 10 and len(range_client.read(queue, 1, 31)) == 30, (
        "nothing has changed"
    )
    assert range_client.settle(queue, "job", number=1, digest=digest(takes[:1])) == 10
    assert range_client.settle(queue, "job", number=1, digest=digest(takes[:1])) == 0, (
        "once more changes nothing"
    )
    assert range_client.settle(queue, "job", number=2, digest=digest(takes[1:])) == 10
    assert range_client.drain(queue) == [(body, False) for body in bodies(10, 20)]


def test_questions_that_overtake_each_other_take_once(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(30))
    range_client.extent(queue)
    question = {"ask": "take", "queue": queue, "lease": "job", "number": 1, "messages": 10}
    numbers = [range_client.put(question) for _ in range(5)]
    assert len({range_client.wait(number).body for number in numbers}) == 1
    assert counts(range_client, queue) == 20


def test_a_take_of_nothing_is_no_lease(range_client: Asker, queue: str) -> None:
    assert range_client.take(queue, "job", 1, 10) == []
    assert range_client.leases(queue) == []
    range_client.publish(queue, b"later")
    assert range_client.take(queue, "job", 1, 10) == [(1, 1)]


def test_a_take_ends_at_its_bytes(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *[b"x" * 100] * 10)
    assert range_client.take(queue, "job", 1, 10, bytes=350) == [(1, 3)]
    assert range_client.take(queue, "job", 2, 10, bytes=1) == [(4, 1)], "one message, however small the limit"


def test_a_lease_outlives_its_connection(mirrormq: MirrorMQ, range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(10))
    other = connect(mirrormq)
    found = other.take(queue, "job", 1, 10)
    other.close()
    assert counts(range_client, queue) == 0
    assert range_client.take(queue, "job", 1, 10) == found
    assert range_client.bodies(queue, found) == bodies(10)


def test_released_messages_return_to_their_places_marked(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(10))
    range_client.take(queue, "one", 1, 3)
    range_client.take(queue, "two", 1, 3)
    range_client.take(queue, "one", 2, 2)
    assert range_client.release(queue, "one") == 5
    assert [lease.name for lease in range_client.leases(queue)] == ["two"]
    assert range_client.drain(queue) == [
        *((body, True) for body in [*bodies(3), *bodies(2, 6)]), *((body, False) for body in bodies(2, 8)),
    ]  # fmt: skip
    with pytest.raises(Refused, match=r"lease 'one' .* was released or has expired"):
        range_client.settle(queue, "one", number=9)


def test_returned_messages_are_not_settled_with_an_earlier_take(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(6))
    held = range_client.channel.basic_get(queue)[0]
    assert range_client.take(queue, "job", 1, 3) == [(2, 3)]
    range_client.channel.basic_nack(held.delivery_tag)
    assert range_client.take(queue, "job", 2, 9) == [(1, 1), (5, 2)]
    assert range_client.settle(queue, "job", number=1) == 3
    assert [row.sequence for row in range_client.read(queue, 1, 9)] == [1, 5, 6]
    assert range_client.settle(queue, "job", to=6) == 2
    assert range_client.take(queue, "job", 2, 9) == [(6, 1)]


def test_purge_limits_and_lifetimes_do_not_touch_what_is_leased(range_client: Asker, queue: str) -> None:
    name = queue + "-limited"
    range_client.channel.queue_declare(name, arguments={"x-max-length": 5, "x-message-ttl": LIFETIME_MS})
    range_client.publish(name, *bodies(5))
    found = range_client.take(name, "job", 1, 3)
    range_client.publish(name, *bodies(9, 5))
    assert counts(range_client, name) == 5
    range_client.channel.queue_purge(name)
    range_client.publish(name, b"dies after all those that are leased")
    deadline = time.monotonic() + DEADLINE_S
    while counts(range_client, name):
        assert time.monotonic() < deadline, "it did not die"
        range_client.connection.sleep(0.1)
    assert range_client.bodies(name, found) == bodies(3)
    range_client.channel.queue_delete(name)
    assert [lease for lease in range_client.leases() if lease.queue == name] == []


@pytest.mark.parametrize("durable", [True, False])
def test_an_idle_lease_is_given_up_and_a_used_one_is_not(
    range_client: Asker, queue: str, durable: bool
) -> None:
    name = queue + "-idle"
    range_client.channel.queue_declare(name, durable=durable)
    range_client.publish(name, *bodies(4))
    range_client.take(name, "idle", 1, 2, idle_ms=IDLE_MS)
    range_client.take(name, "used", 1, 2, idle_ms=IDLE_MS)
    deadline = time.monotonic() + DEADLINE_S
    while len(range_client.leases(name)) == 2:
        assert time.monotonic() < deadline
        range_client.ask("renew", queue=name, lease="used")
        range_client.connection.sleep(0.1)
    assert [lease.name for lease in range_client.leases(name)] == ["used"]
    assert range_client.drain(name) == [(body, True) for body in bodies(2)]
    range_client.channel.queue_delete(name)


def test_an_empty_lease_ends_when_its_owner_is_silent(range_client: Asker, queue: str) -> None:
    """A lease without an owner stays, as does one that holds messages or whose owner renews it."""
    range_client.publish(queue, *bodies(8))
    for name in ("ended", "renewed", "holding", "unowned"):
        owner = {} if name == "unowned" else {"owner": f"owner of {name}"}
        assert range_client.ask("take", queue=queue, lease=name, number=1, messages=2, **owner)
        if name != "holding":
            assert range_client.settle(queue, name, number=1) == 2
    assert len(range_client.leases(queue)) == 4
    began_s = time.monotonic()
    while len(range_client.leases(queue)) == 4:
        assert time.monotonic() < began_s + DEADLINE_S
        range_client.ask("renew", queue=queue, lease="renewed", owner="owner of renewed")
        range_client.connection.sleep(0.5)
    assert time.monotonic() - began_s > range_limits.LEASE_OWNER_MS / 1000 - 1
    assert {lease.name for lease in range_client.leases(queue)} == {"renewed", "holding", "unowned"}
    assert range_client.settle(queue, "ended", number=1) == 0, "a repeated settlement is no loss"
    range_client.publish(queue, *bodies(2))
    taken = range_client.ask("take", queue=queue, lease="ended", number=2, messages=2, owner="owner of ended")
    assert taken.headers["count"] == 2, "its client goes on with the next number"
    assert range_client.ask("release", queue=queue, lease="holding", empty=True).headers["count"] == 0
    assert "holding" in {lease.name for lease in range_client.leases(queue)}


def test_leases_are_listed(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(20))
    range_client.take(queue, "job", 3, 4)
    range_client.take(queue, "job", 7, 5, idle_ms=60_000)
    (lease,) = [lease for lease in range_client.leases() if lease.queue == queue]
    assert (lease.vhost, lease.name, lease.number, lease.user) == ("/", "job", 7, "guest")
    assert (lease.from_, lease.to, lease.count, lease.idle_ms) == (1, 10, 9, 60_000)
    assert [(take.number, take.from_, take.to) for take in lease.takes] == [(3, 1, 5), (7, 5, 10)]
    assert lease.idle_since is not None
    assert range_client.leases(queue)[0].takes == lease.takes


def test_a_priority_queue_lends_the_highest_first(range_client: Asker, queue: str) -> None:
    name = queue + "-priorities"
    range_client.channel.queue_declare(name, durable=True, arguments={"x-max-priority": 3})
    for number in range(9):
        range_client.publish(name, b"%d" % number, priority=number % 3)
    found = range_client.take(name, "job", 1, 4)
    assert sorted(range_client.bodies(name, found)) == [b"1", b"2", b"5", b"8"]
    assert range_client.release(name, "job") == 4
    assert [body for body, _ in range_client.drain(name)] == [
        b"2",
        b"5",
        b"8",
        b"1",
        b"4",
        b"7",
        b"0",
        b"3",
        b"6",
    ]
    range_client.channel.queue_delete(name)


def test_a_lease_outlives_the_node() -> None:
    with MirrorMQ() as node:
        range_client = connect(node)
        range_client.channel.queue_declare("q", durable=True)
        range_client.channel.confirm_delivery()
        range_client.publish("q", *bodies(100))
        found = range_client.take("q", "job", 1, 30)
        range_client.take("q", "job", 2, 30)
        assert range_client.settle("q", "job", number=1) == 30
        node.kill()
        node.boot()
        range_client = connect(node)
        assert range_client.take("q", "job", 2, 30) == [(31, 30)]
        assert range_client.bodies("q", [Span(31, 30)]) == bodies(30, 30)
        assert count_of(found) == 30 and range_client.read("q", 1, 31) == []
        assert range_client.drain("q") == [(body, False) for body in bodies(40, 60)]
        assert range_client.settle("q", "job", number=2) == 30
        node.kill()
        node.boot()
        assert connect(node).extent("q").ready == 0
