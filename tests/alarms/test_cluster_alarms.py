"""Two nodes as processes: one is short of memory, and publishers of the other rest too."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator

import pytest

from mirrormq.testing import Cluster
from mirrormq.wire import methods
from tests.hostile.raw import RawClient, publish_bytes, ready_client
from tests.waiting import until

SHORT, ENOUGH = ("set_vm_memory_high_watermark", "0.0000001"), ("set_vm_memory_high_watermark", "0.9")


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    with Cluster(nodes=2, conf="memory_monitor_interval = 200\n") as started:
        yield started


def count(client: RawClient, queue: str) -> int:
    client.method(1, methods.encode_queue_declare(queue, passive=True))
    return int(client.expect("QueueDeclareOk").message_count)


def api(cluster: Cluster, node: int, path: str) -> tuple[int, dict[str, object]]:
    """Status and document of a request to a node's HTTP API."""
    request = urllib.request.Request(f"http://127.0.0.1:{cluster.management_port(node)}/api/{path}")
    request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def alarms_of(cluster: Cluster, node: int) -> object:
    return api(cluster, node, "health/checks/alarms")[1].get("alarms", [])


def test_publishers_of_every_node_rest_while_one_is_short(pair: Cluster) -> None:
    raised = [{"node": pair.name(1), "resource": "memory"}]
    with ready_client(pair.port(0)) as publisher, ready_client(pair.port(0)) as watcher:
        watcher.declare("q", exclusive=False)
        pair.ctl(*SHORT, node=1)
        until(lambda: alarms_of(pair, 0) == raised)
        assert api(pair, 0, "health/checks/local-alarms") == (200, {"status": "ok"})
        assert api(pair, 1, "health/checks/local-alarms")[0] == 503
        for node in (0, 1):
            screen = pair.ctl("cluster_status", node=node)
            assert f"Alarms\n\nMemory alarm on node {pair.name(1)}\n" in screen
        publisher.send(publish_bytes("q", b"waits"))
        assert publisher.expect("ConnectionBlocked").reason == "low on memory"
        assert count(watcher, "q") == 0
        pair.ctl(*ENOUGH, node=1)
        publisher.expect("ConnectionUnblocked")
        until(lambda: count(watcher, "q") == 1)
        assert api(pair, 0, "health/checks/alarms") == (200, {"status": "ok"})


@pytest.mark.parametrize("way", ["kill", "stop_app"])
def test_publishers_go_on_when_the_node_that_was_short_is_gone(pair: Cluster, way: str) -> None:
    pair.ctl(*SHORT, node=1)
    until(lambda: bool(alarms_of(pair, 0)))
    with ready_client(pair.port(0)) as publisher:
        publisher.declare(way, exclusive=False)
        publisher.send(publish_bytes(way, b"waits"))
        publisher.expect("ConnectionBlocked")
        if way == "kill":
            pair.kill(1)
        else:
            pair.ctl("stop_app", node=1)
        publisher.expect("ConnectionUnblocked")
        until(lambda: count(publisher, way) == 1)
    if way == "kill":
        pair.start(1)
    else:
        pair.ctl("start_app", node=1)
        pair.ctl(*ENOUGH, node=1)
    until(lambda: alarms_of(pair, 0) == [])
