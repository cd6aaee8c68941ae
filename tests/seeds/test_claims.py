"""Claims of the other documents about mirrored and ordinary cluster queues, one test each."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pika
import pika.exceptions
import pytest

from mirrormq.testing import Cluster
from tests.seeds.seed_clients import Consumer, channel, parameters
from tests.waiting import until

PERSISTENT = pika.BasicProperties(delivery_mode=2)
FROZEN_S = 1.5
"""Less than it takes to be given up for dead."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as started:
        yield started


def declare(cluster: Cluster, node: int, name: str, *, durable: bool = True) -> None:
    with channel(cluster, node) as opened:
        opened.queue_declare(name, durable=durable)


def fill(cluster: Cluster, node: int, queue: str, count: int) -> None:
    with channel(cluster, node) as opened:
        for number in range(count):
            opened.basic_publish("", queue, b"%d" % number, PERSISTENT)


def facts(cluster: Cluster, queue: str, node: int = 0) -> dict[str, object]:
    columns = ("name", "pid", "slave_pids", "synchronised_slave_pids", "messages", "state")
    rows = json.loads(cluster.ctl("-q", "list_queues", *columns, "--formatter", "json", node=node))
    found: dict[str, object] = next(row for row in rows if row["name"] == queue)
    return found


def mirrored(cluster: Cluster, queue: str, mirrors: int = 2, node: int = 0) -> None:
    """Wait until so many mirrors hold everything."""
    until(lambda: len(facts(cluster, queue, node)["synchronised_slave_pids"] or []) == mirrors)  # type: ignore[arg-type]


def drain(cluster: Cluster, node: int, queue: str) -> list[tuple[bytes, bool]]:
    found: list[tuple[bytes, bool]] = []
    with channel(cluster, node) as opened:
        while True:
            method, _, body = opened.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((body, method.redelivered))


# -- ordinary queues ----------------------------------------------------------------------------


def test_an_ordinary_queue_is_used_through_any_node(cluster: Cluster) -> None:
    declare(cluster, 0, "ordinary")
    fill(cluster, 1, "ordinary", 3)
    assert facts(cluster, "ordinary", node=2)["messages"] == 3
    assert [body for body, _ in drain(cluster, 2, "ordinary")] == [b"0", b"1", b"2"]


def test_a_durable_queue_whose_node_is_down_says_so(cluster: Cluster) -> None:
    declare(cluster, 0, "HELLO")
    fill(cluster, 0, "HELLO", 1)
    cluster.kill(0)
    where = f"home node '{cluster.name(0)}' of durable queue 'HELLO' in vhost '/'"
    text = f"NOT_FOUND - {where} is down or inaccessible"

    def refused() -> bool:
        with channel(cluster, 1) as opened:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                opened.basic_consume("HELLO", lambda *_: None)
            return bool(closed.value.reply_code == 404 and closed.value.reply_text == text)

    until(refused)
    cluster.start(0)
    until(lambda: [body for body, _ in drain(cluster, 1, "HELLO")] == [b"0"])


def test_a_transient_queue_goes_with_its_node(cluster: Cluster) -> None:
    declare(cluster, 0, "fleeting", durable=False)
    declare(cluster, 1, "staying", durable=False)
    cluster.kill(0)
    until(lambda: "fleeting" not in cluster.ctl("-q", "list_queues", "name", node=1))
    assert "staying" in cluster.ctl("-q", "list_queues", "name", node=1)


def test_all_nodes_show_the_same_metadata(cluster: Cluster) -> None:
    cluster.ctl("add_user", "same", "secret", node=1)
    cluster.ctl("add_vhost", "same", node=2)
    with channel(cluster, 0) as opened:
        opened.exchange_declare("same", "topic", durable=True)
        opened.queue_declare("same", durable=True)
        opened.queue_bind("same", "same", "a.#")
    for verb in ("list_users", "list_vhosts", "list_exchanges", "list_queues", "list_bindings"):
        answers = {cluster.ctl("-q", verb, node=node) for node in range(3)}
        assert len(answers) == 1, verb
        assert "same" in answers.pop()


# -- mirrored queues ----------------------------------------------------------------------------


def test_a_mirrored_queue_survives_its_node(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "mirror", "^mirror", '{"ha-mode":"all"}')
    declare(cluster, 0, "mirror.hello")
    fill(cluster, 0, "mirror.hello", 1)
    cluster.kill(0)
    until(lambda: [body for body, _ in drain(cluster, 1, "mirror.hello")] == [b"0"])


def test_masters_and_mirrors_are_by_queue_not_by_node(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "spread", "^Q", '{"ha-mode":"all","queue-master-locator":"min-masters"}')
    for name in ("Q1", "Q2", "Q3"):
        declare(cluster, 0, name)
    masters = {str(facts(cluster, name)["pid"]) for name in ("Q1", "Q2", "Q3")}
    for node in range(3):
        assert any(cluster.name(node) in pid for pid in masters), "each node is master of one"


def test_masters_are_spread_by_rebalance(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    for name in ("Q1", "Q2", "Q3"):
        declare(cluster, 0, name)
        mirrored(cluster, name)
    said = cluster.ctl("rebalance", "classic")
    assert said.count("│ 1 ") == 3, "how many each node has afterwards"

    def spread() -> bool:
        masters = [str(facts(cluster, name)["pid"]) for name in ("Q1", "Q2", "Q3")]
        return all(any(cluster.name(node) in pid for pid in masters) for node in range(3))

    until(spread)


def test_exactly_two_finds_another_mirror_when_one_dies(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "two", "^two", '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}')
    declare(cluster, 0, "two.queue")
    fill(cluster, 0, "two.queue", 5)
    mirrored(cluster, "two.queue", 1)
    first = next(
        node for node in (1, 2) if cluster.name(node) in str(facts(cluster, "two.queue")["slave_pids"])
    )
    cluster.kill(first)
    until(lambda: cluster.name(3 - first) in str(facts(cluster, "two.queue")["synchronised_slave_pids"]))


def test_named_nodes_hold_the_mirrors(cluster: Cluster) -> None:
    definition = {"ha-mode": "nodes", "ha-params": [cluster.name(0), cluster.name(2)]}
    cluster.ctl("set_policy", "named", "^named", json.dumps(definition))
    declare(cluster, 0, "named.queue")
    mirrored(cluster, "named.queue", 1)
    found = str(facts(cluster, "named.queue")["slave_pids"])
    assert cluster.name(2) in found
    assert cluster.name(1) not in found


def test_exclusive_queues_are_not_mirrored(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    with channel(cluster, 0) as opened:
        opened.queue_declare("mine", exclusive=True)
        assert not facts(cluster, "mine")["slave_pids"]


def test_a_new_mirror_gets_old_messages_only_by_command_or_by_draining(cluster: Cluster) -> None:
    declare(cluster, 0, "manual")
    fill(cluster, 0, "manual", 20)
    cluster.ctl("set_policy", "all", "^manual", '{"ha-mode":"all"}')
    until(lambda: len(facts(cluster, "manual")["slave_pids"] or []) == 2)  # type: ignore[arg-type]
    assert not facts(cluster, "manual")["synchronised_slave_pids"]
    cluster.ctl("sync_queue", "manual")
    mirrored(cluster, "manual")
    declare(cluster, 0, "manual.drains")
    drain(cluster, 0, "manual")
    assert facts(cluster, "manual")["messages"] == 0


def test_a_new_mirror_becomes_synchronised_by_draining(cluster: Cluster) -> None:
    declare(cluster, 0, "draining")
    fill(cluster, 0, "draining", 20)
    cluster.ctl("set_policy", "all", "^draining", '{"ha-mode":"all"}')
    until(lambda: len(facts(cluster, "draining")["slave_pids"] or []) == 2)  # type: ignore[arg-type]
    drain(cluster, 0, "draining")
    mirrored(cluster, "draining")


def test_automatic_synchronisation(cluster: Cluster) -> None:
    declare(cluster, 0, "automatic")
    fill(cluster, 0, "automatic", 50)
    cluster.ctl("set_policy", "all", "^automatic", '{"ha-mode":"all","ha-sync-mode":"automatic"}')
    mirrored(cluster, "automatic")
    cluster.kill(0)
    until(lambda: facts(cluster, "automatic", node=1)["state"] == "running")
    assert len(drain(cluster, 1, "automatic")) == 50


def test_get_on_a_mirror_is_served_by_the_master(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "got")
    fill(cluster, 0, "got", 2)
    with channel(cluster, 2) as opened:
        method, _, body = opened.basic_get("got")
        assert (body, method.message_count) == (b"0", 1)
        opened.basic_nack(method.delivery_tag)
        method, _, body = opened.basic_get("got")
        assert (body, method.redelivered) == (b"0", True)
        opened.basic_ack(method.delivery_tag)
    assert drain(cluster, 1, "got") == [(b"1", False)]


def test_unacknowledged_messages_are_redelivered_in_order_and_marked(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "again")
    fill(cluster, 1, "again", 6)
    with Consumer(cluster, 1, "again", ack_after_s=30.0) as consumer:
        until(lambda: len(consumer.got) == 6)
        cluster.kill(0)
        until(lambda: len(consumer.got) == 12)
        assert [delivery.redelivered for delivery in consumer.got] == [False] * 6 + [True] * 6
        assert consumer.bodies[6:] == [b"%d" % number for number in range(6)]


def test_a_consumer_that_asked_for_it_is_cancelled_at_failover(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "told")
    asked = {"x-cancel-on-ha-failover": True}
    with Consumer(cluster, 1, "told", arguments=asked) as reported, Consumer(cluster, 1, "told") as untold:
        cluster.kill(0)
        until(lambda: reported.cancelled)
        fill(cluster, 1, "told", 1)
        until(lambda: untold.bodies == [b"0"])
        assert not untold.cancelled
        assert not reported.got


def test_a_confirm_waits_for_every_mirror(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "sure")
    with channel(cluster, 0) as opened:
        opened.basic_publish("", "sure", b"everywhere", PERSISTENT)
        cluster.freeze(2)
        began = time.monotonic()
        thaw = threading.Timer(FROZEN_S, cluster.thaw, [2])
        thaw.start()
        opened.basic_publish("", "sure", b"not before the last has it", PERSISTENT)
        waited_s = time.monotonic() - began
        thaw.join()
    assert waited_s >= FROZEN_S
    assert len(facts(cluster, "sure")["synchronised_slave_pids"]) == 2, "too short to be given up"  # type: ignore[arg-type]


def test_the_oldest_mirror_becomes_master(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all","ha-sync-mode":"automatic"}')
    declare(cluster, 0, "aged")
    fill(cluster, 0, "aged", 3)
    cluster.kill(1)
    cluster.start(1)
    mirrored(cluster, "aged")
    cluster.kill(0)
    until(lambda: cluster.name(2) in str(facts(cluster, "aged", node=1)["pid"]))
    assert len(drain(cluster, 1, "aged")) == 3


def test_an_unconfirmed_publish_at_a_living_node_survives_the_master(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "given")
    cluster.freeze(0)
    connection = pika.BlockingConnection(parameters(cluster, 1))
    opened = connection.channel()
    for number in range(20):
        opened.basic_publish("", "given", b"%d" % number)
    cluster.kill(0)
    until(lambda: facts(cluster, "given", node=1)["messages"] == 20)
    connection.close()
    assert [body for body, _ in drain(cluster, 2, "given")] == [b"%d" % number for number in range(20)]


def test_a_dead_mirror_disturbs_no_client(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "calm")
    with Consumer(cluster, 0, "calm") as consumer:
        fill(cluster, 0, "calm", 3)
        cluster.kill(2)
        fill(cluster, 0, "calm", 3)
        until(lambda: len(consumer.got) == 6)
        assert not any(delivery.redelivered for delivery in consumer.got)
        assert not consumer.lost


def test_unsynchronised_and_stopped_in_good_order_the_queue_waits_for_its_master(cluster: Cluster) -> None:
    declare(cluster, 0, "waits")
    fill(cluster, 0, "waits", 10)
    cluster.ctl("set_policy", "all", "^waits", '{"ha-mode":"all"}')
    until(lambda: len(facts(cluster, "waits")["slave_pids"] or []) == 2)  # type: ignore[arg-type]
    cluster.ctl("stop_app")
    with channel(cluster, 1) as opened:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            opened.queue_declare("waits", passive=True)
        assert closed.value.reply_code == 404
    cluster.ctl("start_app")
    until(lambda: len(drain(cluster, 1, "waits")) == 10)


def test_unsynchronised_and_stopped_in_good_order_with_always_a_mirror_takes_over(cluster: Cluster) -> None:
    declare(cluster, 0, "always")
    fill(cluster, 0, "always", 10)
    cluster.ctl("set_policy", "all", "^always", '{"ha-mode":"all","ha-promote-on-shutdown":"always"}')
    until(lambda: len(facts(cluster, "always")["slave_pids"] or []) == 2)  # type: ignore[arg-type]
    cluster.ctl("stop_app")
    until(lambda: cluster.name(0) not in str(facts(cluster, "always", node=1)["pid"]))
    fill(cluster, 1, "always", 1)
    assert [body for body, _ in drain(cluster, 2, "always")] == [b"0"]


def test_after_a_failure_a_mirror_with_holes_is_promoted_unless_configured_otherwise(
    cluster: Cluster,
) -> None:
    declare(cluster, 0, "holes")
    fill(cluster, 0, "holes", 10)
    cluster.ctl("set_policy", "all", "^holes", '{"ha-mode":"all"}')
    until(lambda: len(facts(cluster, "holes")["slave_pids"] or []) == 2)  # type: ignore[arg-type]
    fill(cluster, 0, "holes", 2)
    cluster.kill(0)
    until(lambda: cluster.name(0) not in str(facts(cluster, "holes", node=1)["pid"]))
    assert [body for body, _ in drain(cluster, 2, "holes")] == [b"0", b"1"]


def test_when_synced_a_mirror_with_holes_is_not_promoted_after_a_failure(cluster: Cluster) -> None:
    declare(cluster, 0, "strict")
    fill(cluster, 0, "strict", 10)
    cluster.ctl("set_policy", "all", "^strict", '{"ha-mode":"all","ha-promote-on-failure":"when-synced"}')
    until(lambda: len(facts(cluster, "strict")["slave_pids"] or []) == 2)  # type: ignore[arg-type]
    cluster.kill(0)
    until(lambda: facts(cluster, "strict", node=1)["state"] == "down")
    cluster.start(0)
    until(lambda: facts(cluster, "strict", node=1)["state"] == "running")
    assert len(drain(cluster, 1, "strict")) == 10


def test_a_policy_that_goes_takes_the_mirrors_along(cluster: Cluster) -> None:
    cluster.ctl("set_policy", "all", ".*", '{"ha-mode":"all"}')
    declare(cluster, 0, "bare")
    fill(cluster, 0, "bare", 3)
    mirrored(cluster, "bare")
    cluster.ctl("clear_policy", "all")
    until(lambda: not facts(cluster, "bare")["slave_pids"])
    assert len(drain(cluster, 1, "bare")) == 3
