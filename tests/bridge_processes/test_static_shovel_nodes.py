"""Static shovels on real nodes: status, commands, secrets, refusal of faults, and the death of their node."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrormq.testing import Cluster
from tests.bridge_processes.broker_messages import drain, publish
from tests.bridge_processes.test_shovel_failover import publish_to
from tests.brokers.mirrormq import START_DEADLINE_S, MirrorMQ
from tests.brokers.ports import accepts, free_ports
from tests.cluster_processes.nodes import Nodes
from tests.management.http import Client
from tests.waiting import until

SECRET = "s3cret-of-a-uri"
CONFIGURATION = """
shovel.moves.src-uri = amqp://
shovel.moves.src-queue = from
shovel.moves.dest-uri.1 = amqp://guest:{secret}@127.0.0.1:{port}
shovel.moves.dest-uri.2 = amqp://guest:guest@127.0.0.1:{port}/%2F?heartbeat=10
shovel.moves.dest-queue = to
shovel.moves.dest-queue-args.x-max-length = 1000
shovel.moves.dest-add-forward-headers = true
shovel.moves.reconnect-delay = 0.2
shovel.fails.src-uri = amqp://guest:{secret}@127.0.0.1:{port}
shovel.fails.src-exchange = amq.topic
shovel.fails.dest-uri = amqp://
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[MirrorMQ]:
    """Node with two static shovels to itself, of which one cannot log in."""
    (port,) = free_ports(1)
    with MirrorMQ(configuration=CONFIGURATION.format(secret=SECRET, port=port), amqp_port=port) as node:
        until(lambda: accepts(node.management_port), lambda: node.output, patience_s=START_DEADLINE_S)
        yield node


def row_of(client: Client, name: str) -> dict[str, Any]:
    found = [row for row in client.get("shovels") if row["name"] == name]
    return found[0] if found else {}


def in_state(client: Client, name: str, state: str) -> dict[str, Any]:
    """Wait for a state; return the row."""
    return until(
        lambda: row if (row := row_of(client, name)).get("state") == state else None,
        lambda: f"{state}: {row_of(client, name)}",
    )


def test_a_static_shovel_moves_messages_and_its_status_has_rabbitmqs_form(broker: MirrorMQ) -> None:
    client = Client(broker.management_port)
    in_state(client, "moves", "running")
    publish(broker.amqp_port, "from", ["a", "b"])
    until(lambda: row_of(client, "moves").get("forwarded") == 2)
    moved = drain(broker.amqp_port, "to")
    assert [body for body, _ in moved] == ["a", "b"]
    uri = f"amqp://127.0.0.1:{broker.amqp_port}/%2F"
    (entry,) = moved[0][1].headers["x-shovelled"]
    assert entry.pop("shovelled-by")
    assert entry == {
        "shovel-type": "static", "shovel-name": "moves", "src-uri": "amqp://", "dest-uri": uri,
    }  # fmt: skip
    row = row_of(client, "moves")
    assert "vhost" not in row and row["timestamp"]
    wanted = {
        "node": broker.node_name, "name": "moves", "type": "static", "state": "running",
        "src_uri": "amqp://", "src_protocol": "amqp091", "dest_protocol": "amqp091", "dest_uri": uri,
        "src_queue": "from", "dest_queue": "to",
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    (listed,) = [
        row
        for row in json.loads(broker.control("shovel_status", "--formatter", "json"))
        if row["name"] == "moves"
    ]
    assert (listed["type"], listed["state"], listed["source_queue"]) == ("static", "running", "from")
    assert "vhost" not in listed


def test_a_static_shovel_is_restarted_and_not_deleted(broker: MirrorMQ) -> None:
    client = Client(broker.management_port)
    in_state(client, "moves", "running")
    sentence = (
        "Shovel 'moves' is static: remove the keys shovel.moves.* from the settings file of mirror1@local"
    )
    with pytest.raises(RuntimeError, match=sentence.replace("*", r"\*")):
        broker.control("delete_shovel", "moves")
    reply = client.delete("shovels/vhost/%2F/moves")
    assert reply.status == 400 and sentence in reply.json["reason"]
    restarted = {"forwarded": 0, "state": "running"}
    broker.control("restart_shovel", "moves")
    until(lambda: restarted.items() <= row_of(client, "moves").items())
    assert client.delete("shovels/vhost/%2F/moves/restart").status == 204
    until(lambda: restarted.items() <= row_of(client, "moves").items())


def test_only_administrators_see_static_shovels_over_http(broker: MirrorMQ) -> None:
    client = Client(broker.management_port)
    client.put("users/watcher", {"password": "watcher", "tags": "monitoring"})
    client.put("permissions/%2F/watcher", {"configure": "", "write": "", "read": ".*"})
    watcher = Client(broker.management_port, "watcher", "watcher")
    assert {row["name"] for row in client.get("shovels")} == {"moves", "fails"}
    assert client.get("shovels/%2F") == [] and watcher.get("shovels") == []
    for path in ("shovels/vhost/%2F/moves", "shovels/vhost/%2F/moves/restart"):
        assert watcher.delete(path).status == 404


def test_no_password_of_a_uri_leaves_the_settings_file(broker: MirrorMQ) -> None:
    client = Client(broker.management_port)
    row = in_state(client, "fails", "terminated")
    assert "ACCESS_REFUSED - Login was refused" in row["reason"]
    shown = [
        broker.output, json.dumps(client.get("shovels")), json.dumps(client.get("definitions")),
        json.dumps(client.get("global-parameters")), broker.control("environment"),
        broker.control("report"), broker.control("shovel_status"),
    ]  # fmt: skip
    assert [text for text in shown if SECRET in text] == []
    files = [path for path in (broker.directory / "data").rglob("*") if path.is_file()]
    assert files and [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_a_node_with_a_faulty_static_shovel_does_not_start(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1)
    nodes.spawn(0, conf=f"shovel.s.src-uri = amqp://guest:{SECRET}@h\nshovel.s.src-queue = q\n")
    assert nodes.processes.pop(0).wait(START_DEADLINE_S) == 78
    sentence = "0.conf:1: shovel.s needs shovel.s.dest-uri = amqp://user:password@host:port/vhost."
    assert sentence in nodes.log(0).splitlines()[-1] and SECRET not in nodes.log(0)


STATIC_IN_CLUSTER = """
shovel.s.src-uri = amqp://guest:guest@127.0.0.1:{port}
shovel.s.src-queue = from
shovel.s.src-prefetch-count = 50
shovel.s.dest-uri = amqp://
shovel.s.dest-queue = to
"""


@pytest.mark.slow
def test_a_static_shovel_of_three_nodes_runs_once_and_survives_death_and_drain_of_its_node() -> None:
    with MirrorMQ() as other:
        publish(other.amqp_port, "from", [])
        conf = STATIC_IN_CLUSTER.format(port=other.amqp_port)
        with Cluster(nodes=3, conf=conf, mirror_all=True) as cluster:
            survive(other, cluster)


def survive(other: MirrorMQ, cluster: Cluster) -> None:
    """Kill the node of the shovel under load and start it again, then drain the next one: every message
    arrives, one consumer."""
    clients = [Client(cluster.management_port(index)) for index in range(3)]
    source = Client(other.management_port)
    until(lambda: accepts(other.management_port), patience_s=START_DEADLINE_S)

    def consumers() -> list[str]:
        return [row["channel_details"]["connection_name"] for row in source.get("consumers")]

    home = str(in_state(clients[0], "s", "running")["node"])
    assert [in_state(client, "s", "running")["node"] for client in clients] == [home] * 3
    assert len(consumers()) == 1
    index = [cluster.name(each) for each in range(3)].index(home)
    living = (index + 1) % 3
    published: list[int] = []
    stop = threading.Event()
    publisher = threading.Thread(target=publish_to, args=(other.amqp_port, stop, published))
    publisher.start()
    try:
        until(lambda: len(published) > 200)
        cluster.kill(index)
        until(
            lambda: (row := row_of(clients[living], "s")).get("state") == "running" and row["node"] != home,
            lambda: str(row_of(clients[living], "s")),
        )
        second = row_of(clients[living], "s")["node"]
        (consumer,) = until(lambda: found if len(found := consumers()) == 1 else None)
        cluster.start(index)
        until(lambda: row_of(clients[index], "s").get("state") == "running")
        assert row_of(clients[index], "s")["node"] == second, "the shovel stays where it runs"
        assert consumers() == [consumer]
        cluster.ctl("drain", node=[cluster.name(each) for each in range(3)].index(second))
        until(
            lambda: (row := row_of(clients[index], "s")).get("state") == "running" and row["node"] != second,
            lambda: f"the shovel stays on a drained node: {row_of(clients[index], 's')}",
        )
        until(lambda: len(consumers()) == 1 and consumers() != [consumer])
    finally:
        stop.set()
        publisher.join()
    received: list[int] = []

    def all_received() -> bool:
        received.extend(int(body) for body, _ in drain(cluster.port(index), "to"))
        return set(received) >= set(published)

    until(all_received, lambda: f"{len(set(published) - set(received))} of {len(published)} are missing")
    first = list(dict.fromkeys(received))
    assert first == sorted(first), "first arrivals keep their order"
