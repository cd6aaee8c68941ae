"""Cluster through the HTTP API: every node replies with the state of the whole cluster."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pika
import pytest

from mirrormq.testing import Cluster
from tests.management.http import Client, part
from tests.management.three import NODES
from tests.waiting import until
from tests.web.test_stream import Stream

CONF = "collect_statistics_interval = 1000\n"
PATIENCE_S = 5.5
"""Deadline of a frame; a page waits six seconds."""


@pytest.fixture(scope="module")
def work(cluster: Cluster, clients: list[Client]) -> Iterator[list[pika.BlockingConnection]]:
    """Fixture: a queue on each node, a mirrored queue, messages and consumers."""
    assert clients[0].put("policies/%2F/mirrored", {"pattern": "^m", "definition": MIRRORED}).status == 201
    connections = []
    for index in range(NODES):
        parameters = pika.URLParameters(cluster.uri(index))
        parameters.client_properties = {"connection_name": f"client {index}"}
        connections.append(pika.BlockingConnection(parameters))
        channel = connections[-1].channel()
        channel.confirm_delivery()
        channel.queue_declare(f"own{index}", durable=True)
        for _ in range(index + 1):
            channel.basic_publish("", f"own{index}", b"x", pika.BasicProperties(delivery_mode=2))
    first = connections[0].channel()
    first.queue_declare("mirrored", durable=True)
    first.basic_publish("", "mirrored", b"x")
    last = connections[-1].channel()
    last.basic_qos(prefetch_count=1)
    last.basic_consume("own0", lambda *_: None, consumer_tag="far")
    until(lambda: clients[0].get("queues/%2F/mirrored")["mirrormq"]["in_sync"].__len__() == NODES)
    yield connections
    for connection in connections:
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):
            connection.close()


MIRRORED = {"ha-mode": "all", "ha-sync-mode": "automatic"}
Work = list[pika.BlockingConnection]


def test_every_node_lists_all_queues_with_their_messages(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    for client in clients:
        rows = until(partial(_complete, client))
        seen = {row["name"]: (row["node"], row["messages"], row["state"]) for row in rows}
        assert seen == {
            "mirrored": (cluster.name(0), 1, "running"),
            **{f"own{index}": (cluster.name(index), index + 1, "running") for index in range(NODES)},
        }


def _complete(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get("queues")
    return rows if all("messages" in row for row in rows) else []


def test_a_page_and_a_sorted_list_are_the_clusters_too(clients: list[Client], work: Work) -> None:
    page = clients[1].get("queues?page=1&page_size=2&sort=messages&sort_reverse=true&columns=name,messages")
    assert page["items"] == [{"name": "own2", "messages": 3}, {"name": "own1", "messages": 2}]


def test_a_queue_of_another_node_is_shown_as_its_master_shows_it(clients: list[Client], work: Work) -> None:
    shown = [client.get("queues/%2F/own0") for client in clients]
    assert all(row["consumer_details"][0]["consumer_tag"] == "far" for row in shown)
    assert len({row["messages_unacknowledged"] for row in shown}) == 1


def test_a_mirrored_queue_shows_its_ring(cluster: Cluster, clients: list[Client], work: Work) -> None:
    names = [cluster.name(index) for index in range(NODES)]
    for client in clients:
        row = client.get("queues/%2F/mirrored")
        assert row["node"] == names[0]
        assert sorted(row["slave_nodes"]) == sorted(row["synchronised_slave_nodes"]) == names[1:]
        assert sorted(row["recoverable_slaves"]) == names[1:]
        ring = row["mirrormq"]
        assert ring["epoch"] >= 1 and sorted(ring["members"]) == sorted(ring["in_sync"]) == names
        assert ring["waits_for"] == ring["joining"] == [] and sorted(ring["lag"]) == names[1:]
    assert "slave_nodes" not in clients[0].get("queues/%2F/own1")


@pytest.mark.parametrize("kind", ["connections", "channels", "consumers"])
def test_clients_of_all_nodes_are_listed(
    cluster: Cluster, clients: list[Client], work: Work, kind: str
) -> None:
    expected = {"connections": 3, "channels": 5, "consumers": 1}[kind]
    lists = [client.get(kind) for client in clients]
    assert [len(rows) for rows in lists] == [expected] * NODES
    if kind != "consumers":
        names = {cluster.name(index) for index in range(NODES)}
        assert all({row["node"] for row in rows} == names for rows in lists)
        assert len({tuple(row["name"] for row in rows) for rows in lists}) == 1


def test_one_connection_is_found_from_any_node(clients: list[Client], work: Work) -> None:
    name = clients[0].get("connections")[0]["name"]
    for client in clients:
        assert client.get(f"connections/{part(name)}")["name"] == name
        channels = client.get(f"connections/{part(name)}/channels")
        assert channels and client.get(f"channels/{part(channels[0]['name'])}")["number"]
    assert clients[1].request("GET", "connections/nobody").status == 404
    assert clients[1].request("GET", "channels/nobody").status == 404


def test_totals_are_the_clusters(cluster: Cluster, clients: list[Client], work: Work) -> None:
    for client in clients:
        shown = until(partial(_counted, client))
        assert shown["queue_totals"]["messages"] == 7
        assert shown["object_totals"]["connections"] == 3 and shown["object_totals"]["consumers"] == 1
        assert shown["churn_rates"]["queue_created"] == 4
        assert {each["node"] for each in shown["listeners"]} == {cluster.name(n) for n in range(NODES)}
        (vhost,) = until(partial(_published, client, "vhosts", "publish"))
        assert set(vhost["cluster_state"]) == {cluster.name(n) for n in range(NODES)}
        until(partial(_published, client, "exchanges/%2F/amq.default", "publish_in"))


def _all_published(rows: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    """Return the rows once they count everything that `work` has published."""
    return rows if all(row.get("message_stats", {}).get(what) == 7 for row in rows) else []


def _published(client: Client, path: str, what: str) -> list[dict[str, Any]]:
    found = client.get(path)
    return _all_published(found if isinstance(found, list) else [found], what)


def _runs(client: Client, path: str) -> bool:
    return bool(client.get(path)["state"] == "running")


def _counted(client: Client) -> dict[str, Any]:
    shown: dict[str, Any] = client.get("overview")
    done = shown["message_stats"].get("publish") == 7 and shown["queue_totals"].get("messages") == 7
    return shown if done else {}


def test_a_history_is_the_sum_of_all_nodes(clients: list[Client], work: Work) -> None:
    def newest() -> bool:
        shown = clients[2].get("overview?msg_rates_age=60&msg_rates_incr=10")["message_stats"]
        return bool(shown["publish_details"]["samples"][0]["sample"] == 7)

    until(newest)


def test_every_member_is_a_node(cluster: Cluster, clients: list[Client], work: Work) -> None:
    names = [cluster.name(index) for index in range(NODES)]
    for index, client in enumerate(clients):
        rows = client.get("nodes")
        assert [row["name"] for row in rows] == names
        assert all(row["running"] and row["mem_used"] > 0 and row["partitions"] == [] for row in rows)
        links = {row["name"]: sorted(link["name"] for link in row["cluster_links"]) for row in rows}
        assert links[names[index]] == [name for name in names if name != names[index]]
        assert client.get(f"nodes/{names[(index + 1) % NODES]}")["os_pid"] != rows[index]["os_pid"]
    assert clients[0].request("GET", "nodes/nobody@nowhere").status == 404


def test_a_node_shows_the_memory_breakdown_of_another(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    """The queue `mirrored` has its master on the first node and a copy on the others."""
    shown = clients[0].get(f"nodes/{cluster.name(2)}/memory")["memory"]
    assert shown["queue_slave_procs"] > 0 and shown["connection_channels"] > 0
    assert sum(shown[kind] for kind in shown.keys() - {"strategy", "total"}) == shown["total"]["rss"] > 0
    shares = clients[0].get(f"nodes/{cluster.name(2)}/memory/relative")["memory"]
    assert shares["total"] == 100 and shares["queue_slave_procs"] == 1 < shares["other_system"] <= 100


def test_logins_at_another_node_are_reported_and_forgotten(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    where = f"auth/attempts/{cluster.name(1)}"
    assert {row["protocol"]: row for row in clients[0].get(where)}["amqp091"]["auth_attempts_succeeded"] >= 1
    assert clients[0].delete(where).status == clients[0].delete(f"{where}/source").status == 204
    assert "amqp091" not in [row["protocol"] for row in clients[2].get(where)]
    assert clients[0].request("GET", "auth/attempts/nobody@nowhere").status == 404
    assert clients[0].put("feature-flags/user_limits/enable", {}).status == 204
    assert clients[0].put("feature-flags/nothing/enable", {}).status == 400


def test_statistics_of_another_node_start_anew(cluster: Cluster, clients: list[Client]) -> None:
    def past(node: int) -> list[int]:
        row = clients[0].get(f"nodes/{cluster.name(node)}?node_stats_age=30&node_stats_incr=5")
        return [sample["sample"] for sample in row["mem_used_details"]["samples"]]

    until(lambda: past(1)[2] and past(2)[2])
    assert clients[0].delete(f"reset/{cluster.name(1)}").status == 204
    assert not any(past(1)[2:]) and past(2)[2]
    assert clients[0].delete("reset").status == 204
    assert not any(past(2)[2:])
    assert clients[0].delete("reset/nobody@nowhere").status == 404


def test_a_queue_is_declared_on_the_node_that_is_named(cluster: Cluster, clients: list[Client]) -> None:
    body = {"durable": True, "node": cluster.name(2)}
    assert clients[0].put("queues/%2F/placed", body).status == 201
    assert clients[1].get("queues/%2F/placed")["node"] == cluster.name(2)
    again = clients[0].put("queues/%2F/placed", {**body, "durable": False})
    assert (again.status, again.json["error"]) == (400, "bad_request")
    assert clients[1].delete("queues/%2F/placed").status == 204


def test_connections_of_another_user_are_hidden(clients: list[Client], work: Work) -> None:
    assert clients[0].put("users/narrow", {"password": "x", "tags": "management"}).status in (201, 204)
    rights = {"configure": "", "write": "", "read": ""}
    assert clients[0].put("permissions/%2F/narrow", rights).status in (201, 204)
    tight_limits = [Client(client._port, "narrow", "x") for client in clients]
    name = clients[0].get("connections")[0]["name"]
    for client in tight_limits:
        assert client.get("connections") == client.get("channels") == client.get("consumers") == []
        assert client.request("GET", f"connections/{part(name)}").status == 401
        assert client.get("overview")["object_totals"]["connections"] == 0


def test_a_connection_is_closed_from_another_node(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    parameters = pika.URLParameters(cluster.uri(1))
    parameters.client_properties = {"connection_name": "to be closed"}
    connection = pika.BlockingConnection(parameters)

    def found() -> list[str]:
        rows = clients[2].get("connections")
        return [row["name"] for row in rows if row.get("user_provided_name") == "to be closed"]

    (name,) = until(found)
    assert clients[0].request("DELETE", f"connections/{part(name)}").status == 204
    with pytest.raises(pika.exceptions.AMQPError):
        while True:
            connection.process_data_events(1)
    until(lambda: not found())


def test_masters_move_and_spread(cluster: Cluster, clients: list[Client], work: Work) -> None:
    def master() -> str:
        return str(clients[0].get("queues/%2F/mirrored")["node"])

    moved = clients[2].post("mirrormq/queues/%2F/mirrored/move", {"node": cluster.name(1)})
    assert moved.status == 204
    until(lambda: master() == cluster.name(1))
    refused = clients[2].post("mirrormq/queues/%2F/own0/move", {"node": cluster.name(1)})
    assert refused.status == 400 and "no synchronised mirror" in refused.json["reason"]
    assert clients[2].post("mirrormq/queues/%2F/none/move", {"node": cluster.name(1)}).status == 404
    assert clients[2].post("rebalance/queues", {}).status == 204
    for action in ("sync", "cancel_sync"):
        assert clients[0].post("queues/%2F/mirrored/actions", {"action": action}).status == 204
        assert clients[0].post("queues/%2F/own0/actions", {"action": action}).status == 204


def test_commands_over_http_reach_any_node(cluster: Cluster, clients: list[Client], work: Work) -> None:
    for name in (cluster.name(0), cluster.name(2)):
        reply = clients[0].post("mirrormq/control", {"verb": "status", "node": name}).json
        assert reply["ok"] and reply["result"]["node"] == name
    silent = clients[1].post("mirrormq/control", {"verb": "list_unresponsive_queues"}).json
    assert silent == {"ok": True, "result": []}
    listed = clients[1].post("mirrormq/control", {"verb": "list_queues"}).json["result"]
    assert {row["name"]: row["messages"] for row in listed}["own2"] == 3


def test_a_node_says_whether_mirrored_queues_would_be_lost_with_it(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    """Check that an unsynchronised mirror counts as critical: it has no messages until it is synchronised."""
    check = "health/checks/node-is-mirror-sync-critical"
    assert clients[0].get(check) == {"status": "ok"}
    assert clients[0].get("health/checks/node-is-quorum-critical") == {"status": "ok"}
    definition = {"ha-mode": "all", "ha-sync-mode": "manual"}
    body = {"pattern": "^own1$", "definition": definition, "priority": 9}
    assert clients[0].put("policies/%2F/later", body).status == 201
    answer = until(lambda: _failing(clients[1], check))
    assert answer["reason"] == "There are classic mirrored queues without online synchronised mirrors"
    assert [queue["name"] for queue in answer["queues"]] == ["own1"]
    assert clients[2].get(check) == {"status": "ok"}
    assert clients[2].post("queues/%2F/own1/actions", {"action": "sync"}).status == 204
    until(lambda: clients[1].request("GET", check).status == 200)
    assert clients[0].delete("policies/%2F/later").status == 204
    assert clients[0].get(f"healthchecks/node/{cluster.name(2)}") == {"status": "ok"}


def _failing(client: Client, path: str) -> dict[str, Any]:
    answer = client.request("GET", path)
    return answer.json if answer.status == 503 else {}


def test_the_stream_of_one_node_contains_queues_of_all(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    """Check that a viewer of any node sees changes of another node's queue."""
    stream = Stream(cluster.management_port(1))
    try:
        frames = stream.frames()
        next(frames)
        channel = work[0].channel()
        channel.basic_publish("", "own0", b"x")
        channel.basic_publish("", "own2", b"x")
        reported: dict[str, int] = {}
        while not (reported.get("own0") == 2 and reported.get("own2") == 4):
            reported |= {row["name"]: row["messages"] for row in next(frames)["queues"]}
        channel.queue_purge("own2")
        while reported["own2"] != 0:
            reported |= {row["name"]: row["messages"] for row in next(frames)["queues"]}
        for _ in range(3):
            channel.basic_publish("", "own2", b"x", pika.BasicProperties(delivery_mode=2))
        channel.close()
    finally:
        stream.close()


def test_a_frozen_node_delays_no_other_node_for_long(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    stream = Stream(cluster.management_port(0))
    frames = stream.frames()
    next(frames)
    cluster.freeze(2)
    try:
        heard = [time.monotonic()]
        for _ in range(3):
            next(frames)
            heard.append(time.monotonic())
        longest = max(after - before for before, after in itertools.pairwise(heard))
        assert longest < PATIENCE_S, "a page would take the node that it watches for dead"
        stream.close()
        began = time.monotonic()
        rows = {row["name"]: row for row in clients[0].get("queues")}
        assert time.monotonic() - began < 10
        assert rows["own0"]["messages"] == 2 and rows["own2"]["node"] == cluster.name(2)
        assert "messages" not in rows["own2"]
    finally:
        cluster.thaw(2)
    until(lambda: all(row["running"] for row in clients[0].get("nodes")))


def test_a_dead_nodes_queues_are_shown_as_declared(
    cluster: Cluster, clients: list[Client], work: Work
) -> None:
    cluster.kill(2)
    dead = cluster.name(2)

    def gone(client: Client) -> bool:
        return not client.get(f"nodes/{dead}")["running"]

    for client in clients[:2]:
        until(partial(gone, client))
        row = until(partial(_down, client))
        assert (row["state"], row["node"], row["durable"]) == ("down", dead, True)
        assert "messages" not in row
        assert [node["running"] for node in client.get("nodes")] == [True, True, False]
        assert until(partial(_runs, client, "queues/%2F/mirrored"))
    cluster.start(2)
    until(lambda: clients[0].get("queues/%2F/own2").get("messages") == 3)


def _down(client: Client) -> dict[str, Any]:
    row: dict[str, Any] = client.get("queues/%2F/own2")
    return row if row["state"] == "down" else {}


def _names_seen(cluster: Cluster, clients: list[Client]) -> set[str]:
    """Return the cluster names in overview, server properties and metrics of all nodes."""
    seen = set()
    for index, client in enumerate(clients):
        seen |= {client.get("overview")["cluster_name"], client.get("cluster-name")["name"]}
        connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(index)))
        seen.add(connection._impl.server_properties["cluster_name"])
        connection.close()
        identity = next(
            line
            for line in client.request("GET", "//metrics").body.decode().splitlines()
            if line.startswith("rabbitmq_identity_info")
        )
        seen.add(identity.partition('rabbitmq_cluster="')[2].partition('"')[0])
    return seen


def test_the_cluster_has_one_name_on_every_node(cluster: Cluster, clients: list[Client]) -> None:
    """The first node names it. A new name is on every node when the request is answered."""
    assert _names_seen(cluster, clients) == {cluster.name(0)}
    assert "cluster_name" not in str(clients[1].get("global-parameters")), "lists contain no default"
    assert "cluster_name" not in str(clients[1].get("definitions")["global_parameters"])
    assert clients[2].put("cluster-name", {"name": "trio"}).status == 204
    assert _names_seen(cluster, clients) == {"trio"}
    assert clients[1].delete("global-parameters/cluster_name").status == 204
    assert _names_seen(cluster, clients) == {cluster.name(0)}
