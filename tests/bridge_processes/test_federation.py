"""Federation between MirrorMQ and RabbitMQ in all directions: exchanges and queues, headers, backlogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.bridge_processes.broker_messages import connected, drain, publish, ready
from tests.brokers.mirrormq import START_DEADLINE_S, MirrorMQ
from tests.brokers.ports import accepts
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client, part
from tests.needs import need_rabbitmq
from tests.waiting import until

PLUGINS = ("rabbitmq_federation", "rabbitmq_federation_management")
INTERNAL_QUEUE = "federation: fed.x -> downstream"


class Pair(NamedTuple):
    """Upstream and downstream broker with their API clients."""

    up: MirrorMQ | RabbitMQ
    down: MirrorMQ | RabbitMQ

    @property
    def upstream(self) -> Client:
        return Client(self.up.management_port)

    @property
    def downstream(self) -> Client:
        return Client(self.down.management_port)


@pytest.fixture(
    scope="module",
    params=[
        "mirrormq-mirrormq",
        pytest.param("rabbitmq-mirrormq", marks=[pytest.mark.rabbitmq, pytest.mark.slow]),
        pytest.param("mirrormq-rabbitmq", marks=[pytest.mark.rabbitmq, pytest.mark.slow]),
    ],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two brokers; the name says which is upstream and which downstream."""
    kinds = request.param.split("-")
    if "rabbitmq" in kinds:
        need_rabbitmq()
    brokers = [MirrorMQ() if kind == "mirrormq" else RabbitMQ(more_plugins=PLUGINS) for kind in kinds]
    with brokers[0], brokers[1]:
        for broker, name in zip(brokers, ("upstream", "downstream"), strict=True):
            until(partial(accepts, broker.management_port), patience_s=START_DEADLINE_S)
            assert Client(broker.management_port).put("cluster-name", {"name": name}).status == 204
        yield Pair(*brokers)


def federate(pair: Pair, definition: dict[str, Any], apply_to: str, **upstream: Any) -> None:
    """Set the upstream `u` and the policy `p` at the downstream."""
    value = {"uri": f"amqp://127.0.0.1:{pair.up.amqp_port}/%2F", "reconnect-delay": 1}
    value |= {key.replace("_", "-"): each for key, each in upstream.items()}
    reply = pair.downstream.put("parameters/federation-upstream/%2F/u", {"value": value})
    assert reply.status in (201, 204), reply.body
    policy = {"pattern": "^fed\\.", "definition": definition, "apply-to": apply_to}
    assert pair.downstream.put("policies/%2F/p", policy).status in (201, 204)


def links(client: Client) -> list[dict[str, Any]]:
    return list(client.get("federation-links"))


def is_running(client: Client) -> bool:
    return [row["status"] for row in links(client)] == ["running"]


def upstream_keys(pair: Pair) -> set[str]:
    rows = pair.upstream.get("exchanges/%2F/fed.x/bindings/source")
    return {row["routing_key"] for row in rows if row["destination_type"] == "exchange"}


def unfederate(pair: Pair) -> None:
    pair.downstream.delete("policies/%2F/p")
    until(lambda: not links(pair.downstream))
    pair.downstream.delete("parameters/federation-upstream/%2F/u")


def test_an_exchange_receives_what_its_bindings_ask_for(pair: Pair) -> None:
    down, up = pair.downstream, pair.upstream
    down.put("exchanges/%2F/fed.x", {"type": "topic", "durable": True})
    down.put("queues/%2F/to", {"durable": True})
    down.post("bindings/%2F/e/fed.x/q/to", {"routing_key": "a.#"})
    federate(pair, {"federation-upstream": "u"}, "exchanges", max_hops=2)
    until(lambda: is_running(down), lambda: str(links(down)))
    [row] = links(down)
    assert row["local_connection"].startswith(f"<{row['node']}.")
    [internal] = [row for row in up.get("queues/%2F") if row["name"].startswith("federation: ")]
    assert internal["name"] == INTERNAL_QUEUE
    assert internal["arguments"] == {"x-internal-purpose": "federation"}
    types = {row["name"]: row["type"] for row in up.get("exchanges/%2F")}
    assert types["fed.x"] == "topic", "declared as the downstream's"
    [binding] = up.get("exchanges/%2F/fed.x/bindings/source")
    (entry,) = binding["arguments"]["x-bound-from"]
    letter = binding["destination"][-1]
    assert entry == {"cluster-name": "downstream", "vhost": "/", "exchange": f"/:fed.x {letter}", "hops": 2}
    publish(pair.up.amqp_port, "a.one", ["1"], exchange="fed.x")
    publish(pair.up.amqp_port, "b.one", ["unbound"], exchange="fed.x")
    until(lambda: ready(pair.down.amqp_port, "to") == 1)
    [(body, properties)] = drain(pair.down.amqp_port, "to")
    (origin,) = properties.headers["x-received-from"]
    origin.pop("upstream-exchange", None)
    uri = f"amqp://127.0.0.1:{pair.up.amqp_port}/%2F"
    assert body == "1" and origin == {
        "uri": uri, "exchange": "fed.x", "redelivered": False, "cluster-name": "upstream", "vhost": "/",
    }  # fmt: skip
    down.post("bindings/%2F/e/fed.x/q/to", {"routing_key": "b.*"})
    until(lambda: upstream_keys(pair) == {"a.#", "b.*"})
    publish(pair.up.amqp_port, "b.two", ["2"], exchange="fed.x")
    until(lambda: [body for body, _ in drain(pair.down.amqp_port, "to")] == ["2"])
    down.delete("bindings/%2F/e/fed.x/q/to/b.%2A")
    until(lambda: upstream_keys(pair) == {"a.#"})
    unfederate(pair)
    until(lambda: not any(row["name"].startswith("federation: ") for row in up.get("queues/%2F")))


def test_a_queue_takes_messages_only_for_its_consumers(pair: Pair) -> None:
    down = pair.downstream
    publish(pair.up.amqp_port, "fed.q", [str(number) for number in range(30)])
    down.put("queues/%2F/fed.q", {"durable": True})
    federate(pair, {"federation-upstream-set": "all"}, "queues", prefetch_count=10)
    until(lambda: is_running(down), lambda: str(links(down)))
    assert drain(pair.down.amqp_port, "fed.q") == [], "basic.get starts no transfer"
    assert ready(pair.up.amqp_port, "fed.q") == 30
    connection = connected(pair.down.amqp_port)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=5)
    taken = []
    for method, properties, body in channel.consume("fed.q", inactivity_timeout=60):
        taken.append((body.decode(), properties))
        channel.basic_ack(method.delivery_tag)
        if len(taken) == 30:
            break
    channel.cancel()
    connection.close()
    assert [body for body, _ in taken] == [str(number) for number in range(30)]
    headers = taken[0][1].headers
    assert (headers["x-original-exchange"], headers["x-original-routing-key"]) == ("", "fed.q")
    (origin,) = headers["x-received-from"]
    uri = f"amqp://127.0.0.1:{pair.up.amqp_port}/%2F"
    assert origin == {"uri": uri, "queue": "fed.q", "redelivered": False, "visit-count": 1}
    until(lambda: ready(pair.up.amqp_port, "fed.q") == 0)
    unfederate(pair)
    down.delete("queues/%2F/fed.q")


def test_a_cut_link_loses_nothing(pair: Pair) -> None:
    down, up = pair.downstream, pair.upstream
    down.put("exchanges/%2F/fed.x", {"type": "topic", "durable": True})
    down.put("queues/%2F/to", {"durable": True})
    down.post("bindings/%2F/e/fed.x/q/to", {"routing_key": "#"})
    federate(pair, {"federation-upstream-pattern": "^u$"}, "exchanges")
    until(lambda: is_running(down), lambda: str(links(down)))
    for round_ in range(3):
        publish(pair.up.amqp_port, "k", [f"{round_} {number}" for number in range(50)], exchange="fed.x")
        for row in until(lambda: up.get("connections")):
            up.delete(f"connections/{part(row['name'])}")
        until(lambda: is_running(down), lambda: str(links(down)))
    wanted = {f"{round_} {number}" for round_ in range(3) for number in range(50)}
    got: set[str] = set()

    def all_here() -> bool:
        got.update(body for body, _ in drain(pair.down.amqp_port, "to"))
        return got == wanted

    until(all_here, lambda: str(wanted - got))
    unfederate(pair)


def backlog_survives(pair: Pair, change: Callable[[], None]) -> None:
    """Fill the internal queue while the link cannot publish, make a change, and expect every message."""
    down = pair.downstream
    down.put("exchanges/%2F/fed.x", {"type": "topic", "durable": True})
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    down.put("queues/%2F/full", {"durable": True, "arguments": full})
    down.post("bindings/%2F/e/fed.x/q/full", {"routing_key": "#"})
    federate(pair, {"federation-upstream": "u"}, "exchanges", prefetch_count=5)
    until(lambda: is_running(down), lambda: str(links(down)))
    wanted = [str(number) for number in range(20)]
    publish(pair.up.amqp_port, "k", wanted, exchange="fed.x")
    until(lambda: [row["status"] for row in links(down)] == ["blocked"])
    change()
    got: list[str] = []

    def all_here() -> bool:
        got.extend(body for body, _ in drain(pair.down.amqp_port, "full"))
        return set(got) == set(wanted)

    until(all_here, lambda: f"{len(set(got))} of 20, {links(down)}")
    down.delete("queues/%2F/full")
    unfederate(pair)


@pytest.mark.parametrize("what", ["restart", "policy", "upstream", "cluster name"])
def test_no_change_deletes_the_backlog(what: str) -> None:
    with MirrorMQ() as up, MirrorMQ() as down:
        pair = Pair(up, down)
        for broker in pair:
            until(partial(accepts, broker.management_port), patience_s=START_DEADLINE_S)
        pair.downstream.put("cluster-name", {"name": "downstream"})
        policy = {"pattern": "^fed\\.", "definition": {"federation-upstream": "u"}, "apply-to": "exchanges"}
        uri = f"amqp://127.0.0.1:{up.amqp_port}/%2F"
        value = {"value": {"uri": uri, "expires": 3_600_000, "reconnect-delay": 1}}

        def change() -> None:
            match what:
                case "restart":
                    down.control("restart_federation_link", links(pair.downstream)[0]["id"])
                case "policy":
                    pair.downstream.put("policies/%2F/p", policy | {"priority": 7})
                case "upstream":
                    pair.downstream.put("parameters/federation-upstream/%2F/u", value)
                case _:
                    down.control("set_cluster_name", "renamed")

        backlog_survives(pair, change)
        if what == "cluster name":
            names = {row["name"] for row in pair.upstream.get("queues/%2F")}
            assert "federation: fed.x -> renamed" not in names, "removed with the policy"


def test_failing_links_show_their_reason(node: MirrorMQ, client: Client) -> None:
    client.put("exchanges/%2F/fed.bad", {"type": "topic"})
    value = {"uri": f"amqp://guest:wrong@127.0.0.1:{node.amqp_port}"}
    client.put("parameters/federation-upstream/%2F/bad", {"value": value})
    policy = {"pattern": "^fed\\.bad", "definition": {"federation-upstream": "bad"}}
    client.put("policies/%2F/bad", policy)
    [row] = until(lambda: client.get("federation-links/state/down"))
    assert row["status"] == "error" and "ACCESS_REFUSED - Login was refused" in row["error"]
    assert (row["type"], row["exchange"], row["upstream_exchange"]) == ("exchange", "fed.bad", "fed.bad")
    listed = node.control("federation_status", "--only-down")
    assert f'id => <<"{row["id"]}">>' in listed and "status => error" in listed
    assert client.get("federation-links/state/down/") == client.get("federation-links/%2F/state/down")
    restart = f"federation-links/vhost/%2F/{row['id']}/{row['node']}/restart"
    client.put("users/watcher", {"password": "watcher", "tags": "monitoring"})
    watcher = Client(node.management_port, "watcher", "watcher")
    for path in ("federation-links", "federation-links/%2F", "federation-links/%2F/state/down"):
        assert watcher.get(path) == [], "the user may not enter the vhost"
    assert watcher.delete(restart).status == 404
    assert client.delete(restart).status == 204
    assert client.delete(f"federation-links/vhost/%2F/00000000/{row['node']}/restart").status == 404
    with pytest.raises(RuntimeError, match="Link with the given ID was not found"):
        node.control("restart_federation_link", "00000000")
    client.delete("policies/%2F/bad")
    until(lambda: client.get("federation-links") == [])
