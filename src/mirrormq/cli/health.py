"""Health checks as rabbitmq-diagnostics has them: a sentence and exit code 0, or what is wrong and another.

The checks are made here, of what the node tells: its status, its cluster's, its certificates. So a node needs
no code for them, and the same answers serve screens and checks.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from mirrormq.cli import asking
from mirrormq.cli.cluster_screen import alarm_line, listener_line
from mirrormq.cli.line import Line, UsageError
from mirrormq.cli.verb import Verb
from mirrormq.control.protocol import EXIT_DATA, EXIT_SOFTWARE, EXIT_UNAVAILABLE

AWAIT_MIRROR_S = 120.0
"""rabbitmq-upgrade's own limit for await_online_synchronized_mirror."""
POLL_S = 0.2
CONNECT_S = 5.0
"""How long one port may take to accept a connection."""
UNITS = ("days", "weeks", "months", "years")
PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl"}
"""Names under which RabbitMQ knows a protocol as well."""

Program = Callable[[Verb, Line], int]


def _is_json(line: Line) -> bool:
    return bool(line.options.get("formatter") == "json")


def passed(line: Line, sentence: str, **more: Any) -> int:
    """All is well."""
    if _is_json(line):
        print(json.dumps({"result": "ok", **more}, separators=(",", ":")))
    elif not line.options.get("silent"):
        print(sentence)
    return 0


def failed(line: Line, text: str, **more: Any) -> int:
    """It is not; scripts look at the exit code."""
    if _is_json(line):
        print(json.dumps({"result": "error", **more}, separators=(",", ":")))
    elif not line.options.get("silent"):
        print(f"Error:\n{text}")
    return EXIT_UNAVAILABLE


def is_running(verb: Verb, line: Line) -> int:
    """Says so, and is content either way."""
    asking.show_banner(verb, line)
    runs = _state(line) == "running"
    if _is_json(line):
        print(json.dumps({"result": runs}, separators=(",", ":")))
    else:
        print(_running_sentence(line.node, runs))
    return 0


def check_running(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    runs = _state(line) == "running"
    return (passed if runs else failed)(line, _running_sentence(line.node, runs))


def _state(line: Line) -> str:
    return str(asking.ask(line, "ping", [])["app"])


def _running_sentence(node: str, runs: bool) -> str:
    if runs:
        return f"RabbitMQ on node {node} is fully booted and running"
    return f"RabbitMQ on node {node} is not running or has not fully booted yet (check with is_booting)"


def is_booting(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    boots = _state(line) == "starting"
    rest = "is fully booted (check with is_running), stopped or has not started booting yet"
    if _is_json(line):
        print(json.dumps({"result": boots}, separators=(",", ":")))
    else:
        print(f"RabbitMQ on node {line.node} {'is booting' if boots else rest}")
    return 0


def alarms(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = asking.ask(line, "cluster_status", [])["alarms"]
    if _is_json(line):
        parts = _parts(line, found)
        print(json.dumps({"result": "ok", **parts} if found else {"result": "ok"}, separators=(",", ":")))
    else:
        lines = [alarm_line(alarm) for alarm in found]
        print("\n".join(lines) or f"Node {line.node} reported no alarms, local or clusterwide")
    return 0


def _parts(line: Line, found: list[dict[str, str]]) -> dict[str, Any]:
    local = [alarm_line(alarm) for alarm in found if alarm["node"] == line.node]
    return {"local": local, "global": [alarm_line(alarm) for alarm in found]}


def check_alarms(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = asking.ask(line, "cluster_status", [])["alarms"]
    if not found:
        return passed(line, f"Node {line.node} reported no alarms, local or clusterwide")
    text = "\n".join(alarm_line(alarm) for alarm in found)
    return failed(line, text, **_parts(line, found), message=f"Node {line.node} reported alarms")


def check_local_alarms(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = [
        alarm for alarm in asking.ask(line, "cluster_status", [])["alarms"] if alarm["node"] == line.node
    ]
    if not found:
        return passed(line, f"Node {line.node} reported no local alarms")
    lines = [alarm_line(alarm) for alarm in found]
    return failed(line, "\n".join(lines), local=lines, message=f"Node {line.node} reported local alarms")


def _listeners(line: Line) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asking.ask(line, "status", [])["listeners"]
    return found


def listeners(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = _listeners(line)
    if _is_json(line):
        print(json.dumps({"result": "ok", "node": line.node, "listeners": found}, separators=(",", ":")))
    else:
        print("\n".join(listener_line(row, with_node=False) for row in found))
    return 0


def check_port_listener(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    port, found = int(line.words[0]), _listeners(line)
    ports = [row["port"] for row in found]
    if port in ports:
        return passed(line, f"A listener for port {port} is running on node {line.node}.", port=port)
    known = ", ".join(map(str, ports))
    text = f"No listener for port {port} is active on node {line.node}. "
    text += f"Found listeners that use the following ports: {known}"
    return failed(line, text, missing=port, ports=ports, listeners=found)


def check_protocol_listener(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    given, found = line.words[0], _listeners(line)
    wanted = PROTOCOLS.get(given.lower(), given.lower())
    protocols = [row["protocol"] for row in found]
    if wanted in protocols:
        sentence = f"A listener for protocol {given} is running on node {line.node}."
        return passed(line, sentence, protocol=given)
    text = f"No listener for protocol {given} is active on node {line.node}. "
    text += f"Found listeners for the following protocols: {', '.join(protocols)}"
    return failed(line, text, missing=given, protocols=protocols, listeners=found)


def check_port_connectivity(verb: Verb, line: Line) -> int:
    """From where this program runs, which may be another machine."""
    asking.show_banner(verb, line)
    found, address = _listeners(line), line.options.get("address")
    bad = [row for row in found if not _accepts(str(address or _host(line, row)), row["port"])]
    if not bad:
        ports = ", ".join(str(row["port"]) for row in found)
        return passed(line, f"Successfully connected to ports {ports} on node {line.node}.", listeners=found)
    lines = "\n".join(listener_line(row, with_node=False) for row in bad)
    text = f"Connection to ports of the following listeners on node {line.node} failed: \n{lines}"
    return failed(line, text, failures=bad)


def _host(line: Line, row: dict[str, Any]) -> str:
    interface = str(row["interface"]).strip("[]")
    return line.node.partition("@")[2] if interface in ("", "::", "0.0.0.0") else interface


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=CONNECT_S):
            return True
    except OSError:
        return False


def check_virtual_hosts(verb: Verb, line: Line) -> int:
    """A vhost of ours has no process of its own that could be down: if the node answers, all are there."""
    asking.show_banner(verb, line)
    asking.ask(line, "list_vhosts", [])
    return passed(line, f"Node {line.node} reported all vhosts as running")


def check_certificate_expiration(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    within, unit = int(line.options.get("within", 4)), str(line.options.get("unit", "weeks"))
    found = asking.ask(line, "expiring_certificates", [], {"within": within, "unit": unit})
    if not found:
        return passed(line, f"No certificates are expiring within {within} {unit}.")
    text = "\n".join(json.dumps(row) for row in found)
    return failed(line, text, expired=found)


def check_mirrors(verb: Verb, line: Line) -> int:
    """May the node be stopped without losing a mirrored queue's only good copy?"""
    asking.show_banner(verb, line)
    if _is_alone(line):
        return passed(line, _alone(line, "check"), **_alone_json("check"))
    found = asking.ask(line, "critical_queues", [])
    sentence = f"Node {line.node} reported no classic mirrored queues without online synchronised mirrors"
    if not found:
        return passed(line, sentence)
    rest = f"would lose its only synchronised replica (master) if node {line.node} is stopped"
    text = "\n".join(f"{queue['readable_name']} {rest}" for queue in found)
    message = f"Node {line.node} reported local classic mirrored queues without online synchronised mirrors"
    return failed(line, text, queues=found, message=message)


def check_quorum(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    if _is_alone(line):
        return passed(line, _alone(line, "check"), **_alone_json("check"))
    return passed(line, f"Node {line.node} reported no quorum queues with minimum quorum")


def _is_alone(line: Line) -> bool:
    return len(asking.ask(line, "cluster_status", [])["disk_nodes"]) == 1


def _alone(line: Line, what: str) -> str:
    return f"Node {line.node} seems to be the only one in a single node cluster, the {what} does not apply"


def _alone_json(what: str) -> dict[str, str]:
    rest = f"seems to be the only one in a single node cluster, the {what} does not apply"
    return {"message": f"Target node {rest}"}


def await_mirrors(verb: Verb, line: Line) -> int:
    """Until the check above passes."""
    limit_s = float(line.options.get("timeout", AWAIT_MIRROR_S))
    if not line.is_quiet:
        text = "Will wait for a synchronised mirror be online for all classic mirrored queues for"
        print(f"{text} {round(limit_s)} seconds...", flush=True)
    if _is_alone(line):
        return passed(line, _alone_json("command")["message"])
    deadline = time.monotonic() + limit_s
    while asking.ask(line, "critical_queues", []):
        if time.monotonic() >= deadline:
            text = "time is up, no synchronised mirror came online for at least some classic mirrored queues"
            return failed(line, text, message=text)
        time.sleep(POLL_S)
    return 0


def await_quorum(verb: Verb, line: Line) -> int:
    limit_s = float(line.options.get("timeout", AWAIT_MIRROR_S))
    if not line.is_quiet:
        text = "Will wait for a quorum + 1 of nodes to be online for all quorum queues for"
        print(f"{text} {round(limit_s)} seconds...", flush=True)
    return passed(line, _alone_json("command")["message"]) if _is_alone(line) else 0


def post_upgrade(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    rows = asking.ask(line, "rebalance", ["all"])
    from mirrormq.cli.verbs import VERBS  # which has this one among them

    asking.show_rows(VERBS["rebalance"], Line([], line.options), rows)
    return 0


def node_health_check(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = asking.ask(line, "cluster_status", [])["alarms"]
    local = [alarm for alarm in found if alarm["node"] == line.node]
    if not local:
        return passed(line, "Health check passed")
    names = ",".join(alarm["resource"] for alarm in local)
    print(f"Error: health check failed. Message: resource alarm(s) in effect:[{names}]")
    return EXIT_SOFTWARE


def server_version(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = asking.ask(line, "status", [])["rabbitmq_version"]
    print(json.dumps({"result": "ok", "value": found}, separators=(",", ":")) if _is_json(line) else found)
    return 0


def check_values(verb: Verb, line: Line) -> None:
    """Refuse values that RabbitMQ's tools refuse before they ask a node."""
    if verb.name == "check_port_listener" and not line.words[0].isdecimal():
        raise UsageError("Bad argument: Argument must be a positive integer", EXIT_DATA)
    if verb.name == "check_certificate_expiration":
        unit = str(line.options.get("unit", "weeks"))
        if unit not in UNITS:
            text = f"unit '{unit}' is not supported. Please use one of: {', '.join(UNITS)}"
            raise UsageError(text, EXIT_DATA)
        if not str(line.options.get("within", 4)).isdecimal():
            raise UsageError("Invalid options for this command:\n--within : ")


PROGRAMS: dict[str, Program] = {
    "is_running": is_running,
    "check_running": check_running,
    "is_booting": is_booting,
    "alarms": alarms,
    "check_alarms": check_alarms,
    "check_local_alarms": check_local_alarms,
    "listeners": listeners,
    "check_port_listener": check_port_listener,
    "check_protocol_listener": check_protocol_listener,
    "check_port_connectivity": check_port_connectivity,
    "check_virtual_hosts": check_virtual_hosts,
    "check_certificate_expiration": check_certificate_expiration,
    "check_if_node_is_mirror_sync_critical": check_mirrors,
    "check_if_node_is_quorum_critical": check_quorum,
    "await_online_synchronized_mirror": await_mirrors,
    "await_online_quorum_plus_one": await_quorum,
    "post_upgrade": post_upgrade,
    "node_health_check": node_health_check,
    "server_version": server_version,
}
