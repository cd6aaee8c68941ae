"""Health checks of rabbitmq-diagnostics: a sentence and exit code 0, or an error and another exit code.

The checks run in this program on facts that the node reports: its status, its cluster's status, its
certificates. The node needs no code for them, and screens and checks use the same replies.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from mirrormq.cli import erlang_format, erlang_status, invoke
from mirrormq.cli.cluster_screen import alarm_line, listener_line
from mirrormq.cli.command_line import CommandLine, UsageError
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_SOFTWARE, EXIT_UNAVAILABLE, ControlError

NODE_HEALTH_CHECK_S = 70.0
"""Default timeout of rabbitmqctl for node_health_check."""
AWAIT_MIRROR_S = 120.0
"""Default timeout of rabbitmq-upgrade for await_online_synchronized_mirror."""
POLL_S = 0.2
CONNECT_S = 5.0
"""Timeout of one TCP connection."""
UNITS = ("days", "weeks", "months", "years")
PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl"}
"""Other names of protocols in RabbitMQ."""

Program = Callable[[CtlCommand, CommandLine], int]


def _is_json(line: CommandLine) -> bool:
    return bool(line.options.get("formatter") == "json")


def _shown(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _print_result(line: CommandLine, sentence: str, **more: Any) -> int:
    """Print a sentence, or an object with --formatter json."""
    print(_shown(more)) if _is_json(line) else invoke.print_sentence(line, sentence)
    return 0


def passed(line: CommandLine, sentence: str, **more: Any) -> int:
    """Report a passed check."""
    return _print_result(line, sentence, result="ok", **more)


def failed(line: CommandLine, text: str, *, heading: str = "Error:\n", **more: Any) -> int:
    """Report a failed check and return the exit code that scripts test."""
    if not line.options.get("silent"):
        shown = _shown({"result": "error", **more}) if _is_json(line) and more else f"{heading}{text}"
        print(shown, file=sys.stderr)
    return EXIT_UNAVAILABLE


def is_running(command: CtlCommand, line: CommandLine) -> int:
    """Report whether the application runs; the exit code is 0 in both cases."""
    invoke.show_banner(command, line)
    runs = _state(line) == "running"
    sentence = _running_sentence(line.node, runs)
    return _print_result(line, sentence, message=sentence, result=runs)


def check_running(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    runs = _state(line) == "running"
    sentence = _running_sentence(line.node, runs)
    if not runs:
        return failed(line, sentence)
    return _print_result(line, sentence, message=sentence)


def _state(line: CommandLine) -> str:
    return str(invoke.ask(line, "ping", [])["app"])


def _running_sentence(node: str, runs: bool) -> str:
    if runs:
        return f"RabbitMQ on node {node} is fully booted and running"
    return f"RabbitMQ on node {node} is not running or has not fully booted yet (check with is_booting)"


def is_booting(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    boots = _state(line) == "starting"
    rest = "is fully booted (check with is_running), stopped or has not started booting yet"
    sentence = f"RabbitMQ on node {line.node} {'is booting' if boots else rest}"
    return _print_result(line, sentence, message=sentence, result=boots)


def _alarms(line: CommandLine) -> tuple[list[str], list[str]]:
    """Return this node's alarms and those of the other nodes."""
    reply = invoke.ask(line, "cluster_status", [])["alarms"]
    local = [alarm_line(alarm) for alarm in reply if alarm["node"] == line.node]
    return local, [alarm_line(alarm) for alarm in reply if alarm["node"] != line.node]


def alarms(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    local, others = _alarms(line)
    if not local and not others:
        return passed(line, _no_alarms(line), alarms=[], node=line.node)
    message = f"Node {line.node} reported alarms"
    return passed(line, "\n".join(local + others), **{"local": local, "global": others, "message": message})


def _no_alarms(line: CommandLine) -> str:
    return f"Node {line.node} reported no alarms, local or clusterwide"


def check_alarms(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    local, others = _alarms(line)
    if not local and not others:
        return passed(line, _no_alarms(line))
    details: dict[str, Any] = {
        "local": local,
        "global": others,
        "message": f"Node {line.node} reported alarms",
    }
    return failed(line, "\n".join(local + others), heading="", **details)


def check_local_alarms(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    local, _ = _alarms(line)
    if not local:
        return passed(line, f"Node {line.node} reported no local alarms")
    return failed(line, "\n".join(local), local=local, message=f"Node {line.node} reported local alarms")


def _listeners(line: CommandLine) -> list[dict[str, Any]]:
    reply: list[dict[str, Any]] = invoke.ask(line, "status", [])["listeners"]
    return reply


def listeners(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply = _listeners(line)
    if _is_json(line):
        print(_shown({"result": "ok", "node": line.node, "listeners": reply}))
    elif invoke.is_erlang(line):
        print(erlang_format.written(erlang_status.listeners(reply)))
    else:
        print("\n".join(listener_line(row, with_node=False) for row in reply))
    return 0


def check_port_listener(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    port, reply = int(line.words[0]), _listeners(line)
    ports = [row["port"] for row in reply]
    if port in ports:
        sentence = f"A listener for port {port} is running on node {line.node}."
        return passed(line, sentence, port=line.words[0], node=line.node)
    known = ", ".join(map(str, ports))
    text = f"No listener for port {port} is active on node {line.node}. "
    text += f"Found listeners that use the following ports: {known}"
    return failed(line, text, heading="", missing=port, ports=ports, listeners=reply)


def check_protocol_listener(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply = _listeners(line)
    wanted = PROTOCOLS.get(line.words[0].lower(), line.words[0].lower())
    protocols = sorted({row["protocol"] for row in reply})
    if wanted in protocols:
        sentence = f"A listener for protocol {wanted} is running on node {line.node}."
        return passed(line, sentence, protocol=wanted, node=line.node)
    text = f"No listener for protocol {wanted} is active on node {line.node}. "
    text += f"Found listeners for the following protocols: {', '.join(protocols)}"
    return failed(line, text, missing=wanted, protocols=protocols, listeners=reply)


def check_port_connectivity(command: CtlCommand, line: CommandLine) -> int:
    """Connect to all listeners from the host of this program, which may be a remote one."""
    invoke.show_banner(command, line)
    reply, address = _listeners(line), line.options.get("address")
    bad = [row for row in reply if not _accepts(str(address or _host(line, row)), row["port"])]
    if not bad:
        ports = ", ".join(str(row["port"]) for row in reply)
        return passed(line, f"Successfully connected to ports {ports} on node {line.node}.", listeners=reply)
    lines = "\n".join(listener_line(row, with_node=False) for row in bad)
    text = f"Connection to ports of the following listeners on node {line.node} failed: \n{lines}"
    return failed(line, text, failures=bad)


def _host(line: CommandLine, row: dict[str, Any]) -> str:
    interface = str(row["interface"]).strip("[]")
    return line.node.partition("@")[2] if interface in ("", "::", "0.0.0.0") else interface


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=CONNECT_S):
            return True
    except OSError:
        return False


def check_virtual_hosts(command: CtlCommand, line: CommandLine) -> int:
    """Check the vhosts. They have no separate processes, so all are running if the node replies."""
    invoke.show_banner(command, line)
    invoke.ask(line, "list_vhosts", [])
    return passed(line, f"Node {line.node} reported all vhosts as running")


def check_certificate_expiration(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    within, unit = int(line.options.get("within", 4)), str(line.options.get("unit", "weeks"))
    reply = invoke.ask(line, "expiring_certificates", [], {"within": within, "unit": unit})
    if not reply:
        period = f"{within} {unit if within != 1 else unit.removesuffix('s')}"
        return passed(line, f"No certificates are expiring within {period}.")
    text = "\n".join(json.dumps(row) for row in reply)
    return failed(line, text, heading="", expired=reply)


def check_mirrors(command: CtlCommand, line: CommandLine) -> int:
    """Check whether the node can stop without the loss of a mirrored queue's only synchronised copy."""
    invoke.show_banner(command, line)
    if _is_alone(line):
        return passed(line, _alone(line, "check"), **_alone_json("check"))
    reply = invoke.ask(line, "critical_queues", [])
    sentence = f"Node {line.node} reported no classic mirrored queues without online synchronised mirrors"
    if not reply:
        return passed(line, sentence)
    rest = f"would lose its only synchronised replica (master) if node {line.node} is stopped"
    text = "\n".join(f"{queue['readable_name']} {rest}" for queue in reply)
    message = f"Node {line.node} reported local classic mirrored queues without online synchronised mirrors"
    return failed(line, text, heading="", queues=reply, message=message)


def check_quorum(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    if _is_alone(line):
        return passed(line, _alone(line, "check"), **_alone_json("check"))
    return passed(line, f"Node {line.node} reported no quorum queues with minimum quorum")


def _is_alone(line: CommandLine) -> bool:
    return len(invoke.ask(line, "cluster_status", [])["disk_nodes"]) == 1


def _alone(line: CommandLine, what: str) -> str:
    return f"Node {line.node} seems to be the only one in a single node cluster, the {what} does not apply"


def _alone_json(what: str) -> dict[str, str]:
    rest = f"seems to be the only one in a single node cluster, the {what} does not apply"
    return {"message": f"Target node {rest}"}


def await_mirrors(command: CtlCommand, line: CommandLine) -> int:
    """Wait until `check_mirrors` passes."""
    limit_s = float(line.options.get("timeout", AWAIT_MIRROR_S))
    if not line.is_quiet:
        text = "Will wait for a synchronised mirror be online for all classic mirrored queues for"
        print(f"{text} {round(limit_s)} seconds...", flush=True)
    if _is_alone(line):
        return 0 if line.is_quiet else passed(line, _alone_json("command")["message"])
    deadline = time.monotonic() + limit_s
    while invoke.ask(line, "critical_queues", []):
        if time.monotonic() >= deadline:
            text = "time is up, no synchronised mirror came online for at least some classic mirrored queues"
            return failed(line, text, message=text)
        time.sleep(POLL_S)
    return 0


def await_quorum(command: CtlCommand, line: CommandLine) -> int:
    limit_s = float(line.options.get("timeout", AWAIT_MIRROR_S))
    if not line.is_quiet:
        text = "Will wait for a quorum + 1 of nodes to be online for all quorum queues for"
        print(f"{text} {round(limit_s)} seconds...", flush=True)
    alone = _is_alone(line) and not line.is_quiet
    return passed(line, _alone_json("command")["message"]) if alone else 0


def rebalance(command: CtlCommand, line: CommandLine) -> int:
    """Rebalance masters; the default output is a drawn table."""
    if line.words[0] not in ("all", "classic", "quorum", "stream"):
        raise ControlError(f"type {line.words[0]} is not supported. Try one of all, classic, quorum.")
    invoke.show_banner(command, line)
    rows = invoke.ask(line, "rebalance", line.words)
    if _is_json(line):
        print(_shown({"node": line.node, "result": "ok", "value": [list(row.items()) for row in rows]}))
        return 0
    line.options.setdefault("formatter", "pretty_table")
    invoke.show_rows(command, CommandLine([], line.options), rows)
    return 0


def post_upgrade(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    print("Rebalancing queue masters...", flush=True)
    for row in invoke.ask(line, "rebalance", ["all"]):
        cells = [
            f'{{"{name}", {value if isinstance(value, int) else f":{value}"}}}' for name, value in row.items()
        ]
        print(f"[{', '.join(cells)}]")
    return 0


DEPRECATED = """\
This command is DEPRECATED and will be removed in a future version.
It performs intrusive, opinionated health checks and requires a fully booted node.
Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead."""


def node_health_check(command: CtlCommand, line: CommandLine) -> int:
    """Run RabbitMQ's deprecated health check."""
    if not line.is_quiet:
        limit_s = int(float(line.options.get("timeout", NODE_HEALTH_CHECK_S)))
        print(
            f"{DEPRECATED}\nTimeout: {limit_s} seconds ...\nChecking health of node {line.node} ...",
            flush=True,
        )
    reply = invoke.ask(line, "cluster_status", [])["alarms"]
    local = [alarm for alarm in reply if alarm["node"] == line.node]
    if not local:
        return passed(line, "Health check passed")
    names = ",".join(f"{{resource_limit,{alarm['resource']},{alarm['node']}}}" for alarm in local)
    text = f"Error: health check failed. Message: resource alarm(s) in effect:[{names}]"
    print(f"Error:\n{text}", file=sys.stderr)
    return EXIT_SOFTWARE


def server_version(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply = invoke.ask(line, "status", [])["rabbitmq_version"]
    return _print_result(line, reply, result="ok", value=reply)


def check_values(command: CtlCommand, line: CommandLine) -> None:
    """Refuse values that RabbitMQ's tools refuse before they contact a node."""
    if command.name == "check_port_listener" and not line.words[0].isdecimal():
        raise UsageError("Bad argument: Argument must be a positive integer", EXIT_DATA)
    if command.name == "check_certificate_expiration":
        unit = str(line.options.get("unit", "weeks"))
        if unit not in UNITS:
            raise UsageError(f"\"unit '{unit}' is not supported. Please use one of: {', '.join(UNITS)}\"")
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
    "rebalance": rebalance,
    "post_upgrade": post_upgrade,
    "node_health_check": node_health_check,
    "server_version": server_version,
}
