"""Observation of per-channel statistics at each exchange and queue, equal on any broker."""

from __future__ import annotations

from typing import Any

from tests.management.http import Client, part
from tests.management.scene import Scene
from tests.waiting import until

DETAILED = "management.rates_mode = detailed"

OBJECTS = (
    "queues/%2F/scene.full", "queues/%2F/scene.busy", "queues/%2F/scene.idle", "exchanges/%2F/scene.direct",
    "exchanges/%2F/amq.default", "exchanges/%2F/amq.fanout",
)  # fmt: skip
LISTS = ("deliveries", "incoming", "outgoing", "publishes")


def observe(amqp_port: int, management_port: int) -> dict[str, Any]:
    """Observe the statistics while the clients are connected, and after they have disconnected."""
    with Scene(amqp_port, management_port) as scene:
        client, name = scene.client, scene.connection_name
        channels = [f"channels/{part(name)}%20({number})" for number in (1, 2)]
        until(lambda: _complete(client))
        there = {path.replace(part(name), "CONN"): _lists(client, path) for path in (*OBJECTS, *channels)}
        node = client.get("overview")["node"]
        port = next(row["peer_port"] for row in client.get("connections") if row["name"] == name)
    until(lambda: not any(client.get(path)[_users(path)] for path in OBJECTS))
    left = {path: _lists(client, path) for path in OBJECTS}
    named = {name: "CONN", node: "NODE", port: 0}
    return {"there": plain(there, named), "left": plain(left, named)}


def _complete(client: Client) -> bool:
    """Report whether all numbers have arrived; they come channel by channel."""
    got = client.get("queues/%2F/scene.full")["deliveries"]
    busy = client.get("queues/%2F/scene.busy")
    at_default = client.get("exchanges/%2F/amq.default")
    return bool(
        got
        and got[0]["stats"]["redeliver"] == 1
        and busy["deliveries"]
        and busy["incoming"]
        and at_default["incoming"]
        and at_default["incoming"][0]["stats"]["confirm"] == 5
    )


def _users(path: str) -> str:
    """Return the list that names channels."""
    return "deliveries" if path.startswith("queues") else "incoming"


def _lists(client: Client, path: str) -> dict[str, Any]:
    row = client.get(path)
    return {name: sorted(row[name], key=repr) for name in LISTS if name in row}


def plain(value: Any, named: dict[Any, Any]) -> Any:
    """Return the rows without values that differ between runs: names, addresses and rates."""
    if isinstance(value, dict):
        return {key: 0.0 if key == "rate" else plain(inner, named) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner, named) for inner in value]
    if isinstance(value, str):
        for name, instead in named.items():
            value = value.replace(str(name), instead) if isinstance(instead, str) else value
        return value
    return named.get(value, value)
