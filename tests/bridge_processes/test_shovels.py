"""Shovels of one node: local and remote ends, reasons of failures, limits, commands."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.bridge_processes.broker_messages import connected, drain, publish, ready
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_ports
from tests.management.http import Client
from tests.waiting import until


def put_shovel(client: Client, name: str, **value: Any) -> None:
    """Create a shovel; keys are written with underscores, both ends are this node unless given."""
    given = {"src-uri": "amqp://", "dest-uri": "amqp://"}
    given |= {key.replace("_", "-"): each for key, each in value.items()}
    reply = client.put(f"parameters/shovel/%2F/{quote(name, safe='')}", {"value": given})
    assert reply.status in (201, 204), reply.body


def shovel(client: Client, name: str) -> dict[str, Any]:
    found = [row for row in client.get("shovels") if row["name"] == name]
    return found[0] if found else {}


def state_is(client: Client, name: str, state: str) -> dict[str, Any]:
    """Wait for a state; return the row."""
    return until(
        lambda: row if (row := shovel(client, name)).get("state") == state else None,
        lambda: f"{state}: {shovel(client, name)}",
    )


@pytest.mark.parametrize("remote", ["", "source", "destination", "both"])
def test_a_shovel_moves_messages_between_local_and_remote_ends(
    node: MirrorMQ, client: Client, remote: str
) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{node.amqp_port}"
    source = uri if remote in ("source", "both") else "amqp://"
    destination = uri if remote in ("destination", "both") else "amqp://"
    name, bodies = f"ends {remote}", [f"m{number}" for number in range(50)]
    publish(node.amqp_port, f"from {remote}", bodies)
    put_shovel(
        client, name, src_uri=source, src_queue=f"from {remote}", dest_uri=destination,
        dest_queue=f"to {remote}", dest_add_forward_headers=True, dest_add_timestamp_header=True,
    )  # fmt: skip
    row = until(lambda: found if (found := shovel(client, name)).get("forwarded") == 50 else None)
    assert row["state"] == "running" and "reason" not in row
    assert "guest" not in row["src_uri"] + row["dest_uri"], "no credentials in the status"
    moved = drain(node.amqp_port, f"to {remote}")
    assert [body for body, _ in moved] == bodies
    (entry,) = moved[0][1].headers["x-shovelled"]
    assert (entry["shovel-name"], entry["shovel-type"], entry["src-queue"]) == (
        name, "dynamic", f"from {remote}",
    )  # fmt: skip
    assert isinstance(moved[0][1].headers["x-shovelled-timestamp"], int)
    assert client.delete(f"shovels/vhost/%2F/{quote(name)}").status == 204
    until(lambda: not any(each["name"] == name for each in client.get("shovels")))
    until(lambda: not any(f"Shovel {name}" in str(each) for each in client.get("connections")))


FAULTS = {
    "password": ("amqp://guest:wrong@127.0.0.1:{port}", "ACCESS_REFUSED - Login was refused"),
    "vhost": ("amqp://guest:guest@127.0.0.1:{port}/nosuch", "vhost nosuch not found"),
    "port": ("amqp://guest:guest@127.0.0.1:{closed}", "no broker answers at 127.0.0.1:{closed}"),
    "host": ("amqp://nosuch.invalid", "no broker answers at nosuch.invalid:5672"),
    "local vhost": ("amqp:///nosuch", "vhost nosuch not found"),
    "local user": ("amqp://nobody@", "this cluster has no user 'nobody'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_uri_is_the_reason_of_the_state(node: MirrorMQ, client: Client, fault: str) -> None:
    ports = {"port": node.amqp_port, "closed": free_ports(1)[0]}
    uri, reason = (text.format(**ports) for text in FAULTS[fault])
    value = {"src-uri": uri, "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "r"}
    node.control("set_parameter", "shovel", f"bad {fault}", json.dumps(value))
    row = state_is(client, f"bad {fault}", "terminated")
    assert reason in row["reason"] and row["attempts"] >= 1 and row["next_attempt"]
    table = node.control("shovel_status")
    assert reason in table and "termination_reason" in table.splitlines()[0].split("\t")
    assert f"bad {fault}" in node.output and "wrong" not in f"{row}{table}{node.output}", "no password"
    node.control("restart_shovel", f"bad {fault}")
    node.control("delete_shovel", f"bad {fault}")
    assert not shovel(client, f"bad {fault}")


@pytest.mark.parametrize("end", ["src", "dest"])
def test_an_end_of_amqp_1_0_is_accepted_and_shown_as_not_supported(
    node: MirrorMQ, client: Client, end: str
) -> None:
    value = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "r"}
    del value[f"{end}-queue"]
    value |= {f"{end}-protocol": "amqp10", f"{end}-address": "somewhere"}
    assert client.put("parameters/shovel/%2F/one-oh", {"value": value}).status == 201
    row = state_is(client, "one-oh", "terminated")
    assert "AMQP 1.0 is not supported" in row["reason"]
    assert (row[f"{end}_protocol"], row[f"{end}_address"]) == ("amqp10", "somewhere")
    assert "AMQP 1.0 is not supported" in node.control("shovel_status")
    assert client.delete("shovels/vhost/%2F/one-oh").status == 204
    until(lambda: not shovel(client, "one-oh"))


def test_uris_are_tried_in_order_and_the_one_in_use_is_shown(node: MirrorMQ, client: Client) -> None:
    closed, uri = free_ports(1)[0], f"amqp://127.0.0.1:{node.amqp_port}"
    publish(node.amqp_port, "several", ["one"])
    put_shovel(
        client, "several", src_uri=[f"amqp://127.0.0.1:{closed}", uri], src_queue="several", dest_queue="x"
    )
    assert state_is(client, "several", "running")["src_uri"] == uri
    client.delete("shovels/vhost/%2F/several")


@pytest.mark.parametrize(("limit", "moved"), [("queue-length", 30), (7, 7), (0, 0)])
def test_a_finished_shovel_deletes_itself(
    node: MirrorMQ, client: Client, limit: str | int, moved: int
) -> None:
    source, target = f"limited {limit}", f"target {limit}"
    publish(node.amqp_port, source, [str(number) for number in range(30)])
    publish(node.amqp_port, target, [])
    put_shovel(client, source, src_queue=source, src_delete_after=limit, dest_queue=target)
    until(lambda: not shovel(client, source))
    assert client.request("GET", f"parameters/shovel/%2F/{quote(source)}").status == 404
    assert [int(body) for body, _ in drain(node.amqp_port, target)] == list(range(moved))
    assert ready(node.amqp_port, source) == 30 - moved


def test_a_full_destination_backs_off_and_the_state_says_so(node: MirrorMQ, client: Client) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    client.put("queues/%2F/full", {"durable": True, "arguments": arguments})
    publish(node.amqp_port, "to full", [str(number) for number in range(6)])
    put_shovel(client, "full", src_queue="to full", dest_queue="full")
    row = state_is(client, "full", "blocked")
    assert row["reason"].startswith("rejected: ")
    until(lambda: ready(node.amqp_port, "full") == 2)
    assert shovel(client, "full")["refused"] < 20, "RabbitMQ: a thousand in each second"
    moved: list[str] = []

    def all_moved() -> bool:
        moved.extend(body for body, _ in drain(node.amqp_port, "full"))
        return len(moved) == 6

    until(all_moved)
    assert moved == [str(number) for number in range(6)]
    state_is(client, "full", "running")
    client.delete("shovels/vhost/%2F/full")


def test_an_unroutable_destination_loses_nothing(node: MirrorMQ, client: Client) -> None:
    publish(node.amqp_port, "to nowhere", ["a", "b"])
    put_shovel(client, "nowhere", src_queue="to nowhere", dest_exchange="amq.direct", dest_exchange_key="k")
    assert state_is(client, "nowhere", "blocked")["reason"].startswith("unroutable: ")
    client.put("queues/%2F/somewhere", {"durable": True})
    client.post("bindings/%2F/e/amq.direct/q/somewhere", {"routing_key": "k"})
    until(lambda: ready(node.amqp_port, "somewhere") == 2)
    state_is(client, "nowhere", "running")
    client.delete("shovels/vhost/%2F/nowhere")


def test_a_missing_exchange_is_the_reason(node: MirrorMQ, client: Client) -> None:
    put_shovel(client, "no exchange", src_exchange="nosuch", dest_queue="through")
    row = state_is(client, "no exchange", "terminated")
    assert row["reason"] == "source: NOT_FOUND - no exchange 'nosuch' in vhost '/'"
    client.put("exchanges/%2F/nosuch", {"type": "fanout"})
    state_is(client, "no exchange", "running")
    publish(node.amqp_port, "", ["through"], exchange="nosuch")
    until(lambda: [body for body, _ in drain(node.amqp_port, "through")] == ["through"])
    client.delete("shovels/vhost/%2F/no%20exchange")


def test_a_changed_definition_restarts_the_shovel_and_an_equal_one_does_not(
    node: MirrorMQ, client: Client
) -> None:
    publish(node.amqp_port, "changing", [])
    put_shovel(client, "changing", src_queue="changing", dest_queue="first")
    before = state_is(client, "changing", "running")
    names = {row["name"] for row in client.get("connections")}
    put_shovel(client, "changing", src_queue="changing", dest_queue="first")
    publish(node.amqp_port, "changing", ["a"])
    until(lambda: [body for body, _ in drain(node.amqp_port, "first")] == ["a"])
    assert names <= {row["name"] for row in client.get("connections")}
    assert shovel(client, "changing")["timestamp"] == before["timestamp"]
    put_shovel(client, "changing", src_queue="changing", dest_queue="second")
    publish(node.amqp_port, "changing", ["b"])
    until(lambda: shovel(client, "changing").get("dest_queue") == "second")
    state_is(client, "changing", "running")
    until(lambda: [body for body, _ in drain(node.amqp_port, "second")] == ["b"])
    client.delete("shovels/vhost/%2F/changing")


def test_metrics_of_each_shovel_and_the_number_of_links_by_state(node: MirrorMQ, client: Client) -> None:
    publish(node.amqp_port, "measured", ["m"] * 5)
    put_shovel(client, "measured", src_queue="measured", dest_queue="measured to")
    refused = f"amqp://guest:wrong@127.0.0.1:{node.amqp_port}"
    put_shovel(client, "unmeasured", src_queue="u", dest_uri=refused, dest_queue="v")
    until(lambda: shovel(client, "measured").get("forwarded") == 5)
    state_is(client, "unmeasured", "terminated")

    def metric(path: str, metric_name: str, /, **labels: str) -> float:
        lines = client.request("GET", path).body.decode().splitlines()
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        found = [
            line for line in lines if line.startswith(metric_name) and all(each in line for each in wanted)
        ]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    per_object = "//metrics/per-object"
    assert metric(per_object, "mirrormq_bridge_forwarded_total{", kind="shovel", name="measured") == 5
    assert metric(per_object, "mirrormq_bridge_restarts_total{", kind="shovel", name="unmeasured") >= 1
    assert metric("//metrics", "mirrormq_bridge_links{", state="running") >= 1
    assert metric("//metrics", "mirrormq_bridge_links{", state="terminated") >= 1
    assert metric("//metrics", "mirrormq_bridge_forwarded_total ") >= 5
    for name in ("measured", "unmeasured"):
        client.delete(f"shovels/vhost/%2F/{name}")


def test_status_in_rabbitmqs_form(node: MirrorMQ, client: Client) -> None:
    put_shovel(
        client, "form", src_exchange="amq.topic", src_exchange_key="k.#", dest_exchange="amq.fanout",
        dest_exchange_key="newkey",
    )  # fmt: skip
    state_is(client, "form", "running")
    (row,) = [
        row
        for row in json.loads(node.control("shovel_status", "--formatter", "json"))
        if row["name"] == "form"
    ]
    assert row.pop("last_changed")
    wanted = {
        "destination": "amqp://", "destination_exchange": "amq.fanout", "destination_exchange_key": "newkey",
        "destination_protocol": "amqp091", "name": "form", "source": "amqp://",
        "source_exchange": "amq.topic", "source_exchange_key": "k.#", "source_protocol": "amqp091",
        "state": "running", "termination_reason": "", "type": "dynamic", "vhost": "/",
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert client.delete("shovels/vhost/%2F/form/restart").status == 204
    assert client.delete("shovels/vhost/%2F/nosuch/restart").status == 404
    assert client.delete("shovels/vhost/%2F/nosuch").status == 404
    assert client.request("GET", "shovels/nosuch").status == 404
    assert [row["name"] for row in client.get("shovels/vhost/%2F/form")] == ["form"]
    with pytest.raises(RuntimeError, match="Shovel with the given name was not found on the target node"):
        node.control("delete_shovel", "nosuch")
    with pytest.raises(RuntimeError, match=r"not found on the target node .* and / or virtual host '/'"):
        node.control("restart_shovel", "nosuch")
    client.delete("shovels/vhost/%2F/form")


def test_the_event_exchange_tells_states_and_ends(node: MirrorMQ, client: Client) -> None:
    connection = connected(node.amqp_port)
    channel = connection.channel()
    channel.queue_declare("link events", durable=True)
    for key in ("shovel.#", "federation.#"):
        channel.queue_bind("link events", "amq.rabbitmq.event", key)
    put_shovel(client, "heard", src_queue="heard", dest_queue="heard to")
    state_is(client, "heard", "running")
    refused = {"uri": f"amqp://guest:wrong@127.0.0.1:{node.amqp_port}"}
    client.put("parameters/federation-upstream/%2F/heard", {"value": refused})
    client.put(
        "policies/%2F/heard", {"pattern": "^heard to$", "definition": {"federation-upstream": "heard"}}
    )
    [link] = until(lambda: client.get("federation-links/state/down"))
    client.delete("policies/%2F/heard")
    until(lambda: client.get("federation-links") == [])
    client.delete("shovels/vhost/%2F/heard")
    until(lambda: not shovel(client, "heard"))
    events: list[tuple[str, dict[str, Any]]] = []

    def both_removed() -> bool:
        while (found := channel.basic_get("link events", auto_ack=True))[0] is not None:
            events.append((found[0].routing_key, found[1].headers))
        return {"shovel.worker.removed", "federation.link.removed"} <= {key for key, _ in events}

    until(both_removed, lambda: str(events))
    connection.close()
    shovels = [(key, facts.get("status")) for key, facts in events if key.startswith("shovel.")]
    assert shovels == [
        ("shovel.worker.status", "starting"),
        ("shovel.worker.status", "running"),
        ("shovel.worker.removed", None),
    ]
    running = next(facts for _, facts in events if facts.get("status") == "running")
    wanted = {
        "name": "heard",
        "vhost": "/",
        "src_uri": "amqp://",
        "src_queue": "heard",
        "dest_queue": "heard to",
    }
    assert wanted.items() <= running.items()
    failed = next(facts for _, facts in events if facts.get("status") == "error")
    same = ("queue", "upstream_queue", "type", "vhost", "upstream", "id", "uri", "consumer_tag")
    assert {name: failed[name] for name in same} == {name: link[name] for name in same}
    assert "ACCESS_REFUSED" in failed["error"] and "wrong" not in str(events)
    assert {"queue": "heard to", "id": link["id"]}.items() <= dict(events)["federation.link.removed"].items()


def test_a_local_uri_needs_access_to_its_vhost(client: Client) -> None:
    value = {"src-uri": "amqp:///nosuch", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "r"}
    reply = client.put("parameters/shovel/%2F/denied", {"value": value})
    assert reply.status == 400
    assert 'user "guest" may not connect to vhost "nosuch"' in reply.json["reason"]


def test_only_monitoring_users_see_shovels(node: MirrorMQ, client: Client) -> None:
    client.put("users/plain", {"password": "plain", "tags": "management"})
    reply = Client(node.management_port, "plain", "plain").request("GET", "shovels")
    assert (reply.status, reply.json["reason"]) == (401, "Not monitor user")


def test_shovels_of_another_vhost_are_listed_restarted_and_deleted_there(
    node: MirrorMQ, client: Client
) -> None:
    client.put("vhosts/apart", {})
    client.put("permissions/apart/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    value = {"src-uri": "amqp:///apart", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "apart"}
    node.control("set_parameter", "-p", "apart", "shovel", "there", json.dumps(value))
    state_is(client, "there", "running")
    (row,) = client.get("shovels/apart")
    assert (row["name"], row["vhost"], row["type"]) == ("there", "apart", "dynamic")
    assert "there" not in [row["name"] for row in client.get("shovels/%2F")]
    with pytest.raises(RuntimeError, match="virtual host '/'"):
        node.control("restart_shovel", "there")
    publish(node.amqp_port, "q", ["a"], vhost="apart")
    until(lambda: shovel(client, "there").get("forwarded") == 1)
    node.control("restart_shovel", "-p", "apart", "there")
    until(lambda: {"forwarded": 0, "state": "running"}.items() <= shovel(client, "there").items())
    node.control("delete_shovel", "-p", "apart", "there")
    assert client.get("shovels/apart") == []
    client.delete("vhosts/apart")


def test_users_see_shovels_of_their_vhosts_only(node: MirrorMQ, client: Client) -> None:
    put_shovel(client, "hidden", src_queue="hidden", dest_queue="seen")
    state_is(client, "hidden", "running")
    client.put("users/watcher", {"password": "watcher", "tags": "monitoring"})
    watcher = Client(node.management_port, "watcher", "watcher")
    assert watcher.get("shovels") == [] and watcher.get("shovels/%2F") == []
    for method in ("GET", "DELETE"):
        assert watcher.request(method, "shovels/vhost/%2F/hidden").status == 404
    assert watcher.delete("shovels/vhost/%2F/hidden/restart").status == 404
    client.put("permissions/%2F/watcher", {"configure": "", "write": "", "read": ""})
    assert [row["name"] for row in watcher.get("shovels")] == ["hidden"]
    client.delete("shovels/vhost/%2F/hidden")
