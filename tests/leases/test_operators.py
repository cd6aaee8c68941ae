"""Leases for operators: listing and release by mirrormqctl and the HTTP API, on any node."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from mirrormq.testing import Cluster
from tests.ranges.range_requests import Asker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, mirror_all=True) as cluster:
        yield cluster


def http(cluster: Cluster, node: int, method: str, path: str, user: str = "guest") -> tuple[int, Any]:
    address = f"http://127.0.0.1:{cluster.management_port(node)}/api/{path}"
    login = base64.b64encode(f"{user}:{user}".encode()).decode()
    request = urllib.request.Request(address, method=method, headers={"Authorization": f"Basic {login}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            body = answer.read()
            return answer.status, json.loads(body) if body else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def leased(cluster: Cluster, queue: str) -> Asker:
    range_client = Asker(cluster.uri(0))
    range_client.channel.queue_declare(queue, durable=True)
    range_client.publish(queue, *[b"x" * 10] * 8)
    range_client.take(queue, "archive", 1, 3)
    range_client.take(queue, "archive", 2, 2, idle_ms=60_000)
    return range_client


@pytest.mark.parametrize("node", [0, 1])
def test_mirrormqctl_lists_and_releases(cluster: Cluster, node: int) -> None:
    queue = f"ctl-{node}"
    range_client = leased(cluster, queue)
    listed = json.loads(cluster.ctl("-q", "list_leases", "--formatter", "json", node=node))
    (row,) = [row for row in listed if row["queue"] == queue]
    assert row.pop("idle_since") is not None
    row.pop("takes", None)
    assert row == {
        "queue": queue, "name": "archive", "user": "guest", "number": 2, "from": 1, "to": 6, "messages": 5,
        "message_bytes": 50, "idle_limit": 60_000,
    }  # fmt: skip
    said = cluster.ctl("release_lease", queue, "archive", node=node)
    assert f"5 messages return to queue '{queue}'" in said
    assert range_client.leases(queue) == []
    assert [marked for _, marked in range_client.drain(queue)] == [True] * 5 + [False] * 3
    with pytest.raises(RuntimeError, match=f"Queue '{queue}' in vhost '/' has no lease 'archive'"):
        cluster.ctl("release_lease", queue, "archive", node=node)
    range_client.close()


@pytest.mark.parametrize("node", [0, 1])
def test_the_api_lists_and_releases(cluster: Cluster, node: int) -> None:
    queue = f"api-{node}"
    range_client = leased(cluster, queue)
    for path in ("mirrormq/leases", "mirrormq/leases/%2F"):
        status, rows = http(cluster, node, "GET", path)
        assert status == 200
        (row,) = [row for row in rows if row["queue"] == queue]
        assert (row["vhost"], row["name"], row["messages"]) == ("/", "archive", 5)
        assert row["takes"][1] == {"number": 2, "from": 4, "to": 6, "messages": 2}
    assert http(cluster, node, "DELETE", f"mirrormq/leases/%2F/{queue}/other")[0] == 404
    assert http(cluster, node, "DELETE", f"mirrormq/leases/%2F/{queue}/archive")[0] == 204
    assert range_client.leases(queue) == []
    range_client.close()


def test_a_user_without_read_access_sees_and_ends_no_lease(cluster: Cluster) -> None:
    range_client = leased(cluster, "private")
    cluster.ctl("add_user", "other", "other")
    cluster.ctl("set_user_tags", "other", "management")
    cluster.ctl("set_permissions", "other", ".*", ".*", "^public")
    status, rows = http(cluster, 0, "GET", "mirrormq/leases", "other")
    assert (status, rows) == (200, [])
    assert http(cluster, 0, "DELETE", "mirrormq/leases/%2F/private/archive", "other")[0] == 401
    assert len(range_client.leases("private")) == 1
    range_client.close()
