"""Listeners and access control of the metrics."""

from __future__ import annotations

import json

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import accepts, free_port
from tests.management.conftest import managed
from tests.management.http import Client
from tests.waiting import until

PATHS = ("//metrics", "//metrics/per-object", "//metrics/detailed?family=queue_metrics")


def statuses(port: int, **login: str | None) -> set[int]:
    """Return the status of all metrics paths; `Authorization=None` sends no login."""
    client = Client(port, **{name: value for name, value in login.items() if value is not None})
    headers = {"Authorization": None} if not login else {}
    return {client.request("GET", path, headers=headers).status for path in PATHS}


def test_metrics_are_open_on_the_management_port() -> None:
    with managed() as node:
        assert statuses(node.management_port) == {200}


def test_metrics_need_a_login_if_configured() -> None:
    with managed("prometheus.authentication.enabled = true") as node:
        port = node.management_port
        for name, tags in (("watcher", "monitoring"), ("clerk", "management")):
            node.control("add_user", name, "secret")
            node.control("set_user_tags", name, tags)
        assert statuses(port) == {401}
        assert statuses(port, user="watcher", password="wrong") == {401}
        assert statuses(port, user="clerk", password="secret") == {401}
        assert statuses(port, user="watcher", password="secret") == {200}
        challenge = Client(port).request("GET", "//metrics", headers={"Authorization": None}).headers
        assert challenge["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    "keys", ["prometheus.tcp.port = {0}", "prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {0}"]
)
def test_metrics_can_have_a_port_of_their_own(keys: str) -> None:
    own = free_port()
    with managed(keys.format(own)) as node:
        until(lambda: accepts(own))
        assert statuses(own) == {200}
        assert statuses(node.management_port) == {404}, "one place, so that one firewall rule is enough"
        for path in ("overview", "//", "definitions"):
            assert Client(own).request("GET", path).status == 404
        assert Client(own).put("queues/%2F/q", {}).status == 404
        assert_listed(node, own)


def assert_listed(node: MirrorMQ, port: int) -> None:
    listed = json.loads(node.control("--formatter", "json", "status"))["listeners"]
    assert ("http/prometheus", port) in [(each["protocol"], each["port"]) for each in listed]
    overview = Client(node.management_port).get("overview")["listeners"]
    assert ("http/prometheus", port) in [(each["protocol"], each["port"]) for each in overview]
