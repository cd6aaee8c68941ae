"""`ha-redeliver: lost`: consumers on surviving nodes keep what they hold when a queue gets another master."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.queues.kept_deliveries import CLAIMS_WAIT_MS
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.remote.retained import RetainedDeliveries
from mirrormq.wire import methods
from tests.harness import deliveries
from tests.mirrored.cluster import Cluster, MirroredClient, bodies

SURVIVORS = ["b", "c"]
"""The new master's node, and another one."""


def prepared(*, on: str = "b", names: str = "abc", **arguments: Any) -> tuple[Cluster, MirroredClient]:
    """Queue q with its master on a and mirrors on other nodes; a client of `on`."""
    cluster = Cluster(*names)
    cluster.mirror_all(**{"ha-redeliver": "lost"})
    cluster.connect("a").declare("q", **arguments)
    return cluster, cluster.connect(on)


def shown(found: list[Any]) -> list[tuple[bytes | None, bool]]:
    return [(body, redelivered) for _, body, redelivered in found]


def hold(cluster: Cluster, client: MirroredClient, count: int = 4) -> None:
    """Let a client hold this many messages, and kill the master."""
    cluster.connect("c").publish("q", *bodies(count), persistent=True)
    cluster.settle()
    assert shown(client.consume("q")) == [(body, False) for body in bodies(count)]
    cluster.kill("a")
    cluster.settle()


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_consumer_keeps_what_it_holds_and_acknowledges_it(on: str) -> None:
    cluster, client = prepared(on=on)
    hold(cluster, client)
    assert cluster.master("q").name == "b"
    assert cluster.counts("q") == (0, 4)
    client.publish("q", b"more", persistent=True)
    assert shown(deliveries(client.read())) == [(b"more", False)]
    client.send(methods.encode_basic_ack(2, True))
    client.read()
    assert cluster.counts("q") == (0, 3)
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert cluster.counts("q") == (0, 0)
    cluster.check_equal("q")


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_second_failover_takes_nothing_away_either(on: str) -> None:
    cluster, client = prepared(on=on)
    hold(cluster, client)
    cluster.start("a")
    cluster.settle()
    cluster.change_view("q", members=("c", "a", "b"))
    cluster.change_view("q", members=("a", "b", "c"))
    assert deliveries(client.read()) == []
    assert cluster.counts("q") == (0, 4)
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert cluster.counts("q") == (0, 0)


@pytest.mark.parametrize("on", SURVIVORS)
def test_acknowledgements_that_the_old_master_has_not_passed_on_are_repeated(on: str) -> None:
    cluster, client = prepared(on=on)
    client.publish("q", *bodies(4), persistent=True)
    client.consume("q")
    cluster.held |= {("a", "b"), ("a", "c")}
    client.send(methods.encode_basic_ack(3, True))
    client.read()
    assert cluster.counts("q") == (0, 1), "the master has heard them, and nobody else"
    cluster.kill("a")
    cluster.held.clear()
    assert deliveries(client.read()) == []
    assert cluster.counts("q") == (0, 1)
    assert cluster["b"].metadata.state.queues["/", "q"].ring.epoch == 2


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_node_forgets_settlements_that_the_ring_has(on: str) -> None:
    cluster, client = prepared(on=on)
    client.publish("q", *bodies(4), persistent=True)
    client.consume("q")
    client.send(methods.encode_basic_ack(3, True))
    client.read()
    queue = cluster[on].broker.vhosts["/"].queues["q"]
    assert isinstance(queue, RemoteQueue)
    retained = queue._deliveries._retained
    assert isinstance(retained, RetainedDeliveries)
    assert retained.claim({}).acknowledged == (1, 2, 3)
    cluster.advance(100)
    assert retained.claim({}).sequences == [4]


@pytest.mark.parametrize("on", SURVIVORS)
def test_kept_messages_that_are_given_back_come_again_marked(on: str) -> None:
    cluster, client = prepared(on=on)
    hold(cluster, client)
    client.send(methods.encode_basic_nack(2, False, True))
    assert shown(deliveries(client.read())) == [(b"1", True)]
    other = cluster.connect("b")
    client.lose()
    assert sorted(shown(other.consume("q"))) == [(body, True) for body in bodies(4)]


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_kept_message_that_is_rejected_becomes_a_dead_letter(on: str) -> None:
    cluster, client = prepared(on=on, dead_letter_exchange="", dead_letter_routing_key="dead")
    cluster.connect("b").declare("dead")
    hold(cluster, client)
    client.send(methods.encode_basic_reject(1, False))
    client.read()
    assert cluster.connect("c").drain("dead") == [b"0"]
    assert cluster.counts("q") == (0, 3)


@pytest.mark.parametrize("on", SURVIVORS)
def test_messages_that_were_got_are_kept(on: str) -> None:
    cluster, client = prepared(on=on)
    client.publish("q", *bodies(2), persistent=True)
    client.read()
    assert client.get("q") is not None
    cluster.kill("a")
    cluster.settle()
    assert cluster.counts("q") == (1, 1)
    client.send(methods.encode_basic_ack(1, False))
    client.read()
    assert cluster.connect("c").drain("q") == [b"1"]
    assert cluster.counts("q") == (0, 0)


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_transaction_that_is_open_settles_kept_messages_when_it_commits(on: str) -> None:
    cluster, client = prepared(on=on)
    client.call(methods.encode_tx_select())
    cluster.connect("c").publish("q", *bodies(4), persistent=True)
    cluster.settle()
    client.consume("q")
    client.send(methods.encode_basic_ack(2, True))
    cluster.kill("a")
    client.read()
    assert cluster.counts("q") == (0, 4)
    assert isinstance(client.call(methods.encode_tx_commit()), methods.TxCommitOk)
    cluster.settle()
    assert cluster.counts("q") == (0, 2)
    client.send(methods.encode_basic_ack(4, True))
    client.call(methods.encode_tx_rollback())
    assert cluster.counts("q") == (0, 2)


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_consumer_that_is_cancelled_loses_what_it_holds(on: str) -> None:
    cluster, client = prepared(on=on)
    client.publish("q", *bodies(3), persistent=True)
    client.consume("q", cancel_on_ha_failover=True)
    cluster.kill("a")
    client.read()
    assert cluster.counts("q") == (3, 0)
    client.send(methods.encode_basic_ack(3, True))
    client.read()
    other = cluster.connect("c")
    assert shown(other.consume("q")) == [(body, True) for body in bodies(3)]


def test_only_messages_of_lost_clients_are_redelivered_and_marked() -> None:
    cluster, client = prepared(on="c")
    lost = cluster.connect("a")
    client.publish("q", *bodies(2), persistent=True)
    assert shown(lost.consume("q", prefetch=2)) == [(body, False) for body in bodies(2)]
    client.consume("q", prefetch=2)
    client.publish("q", *bodies(4, 2), persistent=True)
    assert shown(deliveries(client.read())) == [(b"2", False), (b"3", False)]
    cluster.kill("a")
    cluster.settle()
    assert cluster.counts("q") == (4, 2)
    client.send(methods.encode_basic_ack(0, True))
    assert shown(deliveries(client.read())) == [(b"0", True), (b"1", True)]
    client.send(methods.encode_basic_ack(0, True))
    assert shown(deliveries(client.read())) == [(b"4", False), (b"5", False)]


def test_consumers_of_a_surviving_master_keep_what_they_hold() -> None:
    cluster, client = prepared(on="a")
    client.publish("q", *bodies(4), persistent=True)
    client.consume("q", prefetch=4)
    client.send(methods.encode_basic_ack(1, False))
    cluster.change_view("q", members=("b", "c", "a"))
    assert cluster.counts("q") == (0, 3)
    client.send(methods.encode_basic_ack(0, True))
    assert deliveries(client.read()) == []
    assert cluster.counts("q") == (0, 0)
    cluster.check_equal("q")


def test_the_new_master_serves_when_every_living_node_has_stated_its_claim() -> None:
    cluster, client = prepared(on="c")
    other = cluster.connect("b")
    client.publish("q", *bodies(4), persistent=True)
    client.consume("q", prefetch=2)
    cluster.held |= {("c", "b")}
    cluster.kill("a")
    assert other.consume("q") == []
    cluster.held.clear()
    assert shown(deliveries(other.read())) == [(b"2", False), (b"3", False)]
    assert cluster.counts("q") == (0, 4)


def test_messages_that_may_be_held_are_not_purged() -> None:
    cluster, client = prepared(on="c")
    client.publish("q", *bodies(4), persistent=True)
    client.consume("q", prefetch=2)
    cluster.held |= {("c", "b")}
    cluster.kill("a")
    other = cluster.connect("b")
    other.send(methods.encode_queue_purge("q"))
    assert other.read() == []
    cluster.held.clear()
    assert [one.method.message_count for one in other.read()] == [2]
    assert cluster.counts("q") == (0, 2)


def test_a_node_that_stays_silent_loses_its_claim_after_a_while() -> None:
    cluster, client = prepared(on="d", names="abcde")
    client.publish("q", *bodies(2), persistent=True)
    client.consume("q")
    cluster.policy({"ha-mode": "nodes", "ha-params": ["a", "b", "c"], "ha-redeliver": "lost"})
    cluster.advance(100)
    assert cluster.record("q").ring.members == ("a", "b", "c")
    cluster.held |= {("d", "b")}
    cluster.kill("a")
    other = cluster.connect("b")
    assert other.consume("q") == []
    cluster.advance(CLAIMS_WAIT_MS)
    assert shown(deliveries(other.read())) == [(body, True) for body in bodies(2)]
    cluster.held.clear()
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert cluster.counts("q") == (0, 2), "they are another client's now"


def test_a_node_that_is_lost_has_no_claim() -> None:
    cluster, client = prepared(on="d", names="abcde")
    client.publish("q", *bodies(2), persistent=True)
    client.consume("q")
    cluster.held |= {("d", "b")}
    cluster.kill("a")
    other = cluster.connect("b")
    assert other.consume("q") == []
    cluster.kill("d")
    assert shown(deliveries(other.read())) == [(body, True) for body in bodies(2)]


def test_held_messages_do_not_expire_before_they_are_claimed() -> None:
    cluster, client = prepared(on="c", message_ttl=1000)
    client.publish("q", *bodies(2), persistent=True)
    client.consume("q", prefetch=1)
    cluster.held |= {("c", "b")}
    cluster.kill("a")
    cluster.settle()
    cluster.advance(2000)
    cluster.held.clear()
    cluster.settle()
    assert cluster.counts("q") == (0, 1), "what nobody holds has expired"


def test_a_message_is_delivered_when_every_mirror_has_it() -> None:
    cluster, client = prepared(on="a")
    other = cluster.connect("c")
    client.consume("q")
    cluster.held |= {("b", "c")}
    client.publish("q", b"1", persistent=True)
    assert deliveries(client.read()) == []
    cluster.held.clear()
    assert shown(deliveries(client.read())) == [(b"1", False)]
    client.send(methods.encode_basic_cancel("c", False))
    client.read()
    cluster.held |= {("b", "c")}
    client.publish("q", b"2", persistent=True)
    client.send(methods.encode_basic_get("q", False))
    assert client.read() == [], "a get waits too"
    cluster.held.clear()
    assert [one.method.redelivered for one in client.read()] == [False]
    assert other.get("q") is None


def test_a_message_with_a_short_ttl_does_not_wait() -> None:
    _, client = prepared(on="a", message_ttl=0)
    client.consume("q")
    client.publish("q", b"1", persistent=True)
    assert shown(deliveries(client.read())) == [(b"1", False)]


def test_publishes_that_are_sent_again_have_been_with_no_consumer() -> None:
    cluster, client = prepared(on="c")
    client.consume("q")
    cluster.held |= {("a", "b")}
    client.publish("q", b"1", persistent=True)
    assert deliveries(client.read()) == []
    cluster.kill("a")
    cluster.held.clear()
    assert shown(deliveries(client.read())) == [(b"1", False)]


def test_the_policy_may_change_at_any_time() -> None:
    cluster, client = prepared(on="c")
    cluster.mirror_all()
    client.publish("q", *bodies(2), persistent=True)
    client.consume("q", prefetch=2)
    cluster.mirror_all(**{"ha-redeliver": "lost"})
    client.publish("q", *bodies(2, 2), persistent=True)
    client.send(methods.encode_basic_ack(1, False))
    assert shown(deliveries(client.read())) == [(b"2", False)]
    cluster.advance(100)
    cluster.kill("a")
    cluster.settle()
    assert cluster.counts("q") == (2, 1)
    client.send(methods.encode_basic_ack(0, True))
    assert shown(deliveries(client.read())) == [(b"1", True), (b"3", False)]
    cluster.mirror_all()
    assert not cluster.queue("q").kept.gated


def test_a_message_of_any_priority_is_kept() -> None:
    cluster, client = prepared(on="c", max_priority=3)
    hold(cluster, client)
    assert cluster.counts("q") == (0, 4)
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert cluster.counts("q") == (0, 0)
