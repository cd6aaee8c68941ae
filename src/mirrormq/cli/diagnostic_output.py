"""Client-side parts of the diagnostic commands: sentences, units, streams."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from mirrormq.cli import invoke
from mirrormq.cli.command_line import CommandLine, UsageError
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.control.control_protocol import EXIT_DATA

LOG_LINES_DEFAULT = 50
"""Default number of lines of rabbitmq-diagnostics."""
POLL_S = 0.2
UNITS = {"bytes": 1, "mb": 1_000_000, "gb": 1_000_000_000}
ADDRESS_FAMILIES = ("ipv4", "ipv6")

Program = Callable[[CtlCommand, CommandLine], int]


def _is_json(line: CommandLine) -> bool:
    return bool(line.options.get("formatter") == "json")


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def check_values(command: CtlCommand, line: CommandLine) -> None:
    """Refuse values that RabbitMQ's tools refuse before they contact a node."""
    options = line.options
    if command.name == "log_tail" and not str(options.get("number", 1)).isdecimal():
        raise UsageError(f"Invalid options for this command:\n-N : {options['number']}")
    if "duration" in command.options and not str(options.get("duration", 1)).isdecimal():
        raise UsageError(f"Invalid options for this command:\n-d : {options['duration']}")
    if command.name == "memory_breakdown" and options.get("unit", "gb") not in UNITS:
        raise UsageError(
            f"\"unit '{options['unit']}' is not supported. Please use one of: {', '.join(UNITS)}\""
        )
    if command.name == "resolve_hostname" and options.get("address-family", "ipv4") not in ADDRESS_FAMILIES:
        valid = f"Valid values are: {', '.join(ADDRESS_FAMILIES)}"
        family = options["address-family"]
        raise UsageError(f"Bad argument: unsupported IP address family {family}. {valid}", EXIT_DATA)
    if command.name == "cipher_suites" and options.get("format", "openssl") != "openssl":
        raise UsageError("Bad argument: Format should be openssl: the other formats are Erlang's", EXIT_DATA)
    if command.name == "change_cluster_node_type" and line.words[0] not in ("disc", "ram"):
        raise UsageError("Bad argument: The node type must be either disc or ram.", EXIT_DATA)
    if command.name == "consume_event_stream":
        _pattern(line)


def _pattern(line: CommandLine) -> re.Pattern[str]:
    try:
        return re.compile(str(line.options.get("pattern", "")))
    except re.error as error:
        raise UsageError(
            f"Bad argument: the pattern is not a regular expression: {error}", EXIT_DATA
        ) from None


def done(command: CtlCommand, line: CommandLine) -> int:
    """Run a command without output."""
    invoke.show_banner(command, line)
    invoke.ask(line, command.name, line.words)
    if _is_json(line):
        print(_shown({"node": line.node, "result": "ok"}))
    return 0


def _listing(about: Callable[[CommandLine, list[str]], dict[str, Any]], nothing: str = "") -> Program:
    """Return the program of a command whose result is a list of texts: one line each, or a JSON object."""

    def program(command: CtlCommand, line: CommandLine) -> int:
        invoke.show_banner(command, line)
        reply: list[str] = invoke.ask(line, command.name, line.words)
        if _is_json(line):
            print(_shown(about(line, reply)))
        else:
            invoke.print_sentence(line, "\n".join(reply) or nothing)
        return 0

    return program


def _located(line: CommandLine, reply: list[str]) -> dict[str, Any]:
    return {"node_name": line.node, "paths": reply, "result": "ok"}


def _versions(line: CommandLine, reply: list[str]) -> dict[str, Any]:
    return {"versions": reply}


def _suites(line: CommandLine, reply: list[str]) -> dict[str, Any]:
    return {"suites": reply}


def _arguments(line: CommandLine, reply: list[str]) -> dict[str, Any]:
    return {"node": line.node, "result": "ok", "arguments": reply}


NO_PEERS = "No peers discovered"


def _peers(line: CommandLine, reply: list[str]) -> dict[str, Any]:
    return {"peers": reply} if reply else {"message": NO_PEERS}


def _addresses(line: CommandLine, reply: list[str]) -> dict[str, Any]:
    family = line.options.get("address-family", "IPv4")
    return {
        "address_family": family, "addresses": reply, "hostname": line.words[0], "node": line.node,
        "result": "ok",
    }  # fmt: skip


def log_tail(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    number = {"number": line.options.get("number", LOG_LINES_DEFAULT)}
    lines: list[str] = invoke.ask(line, "log_tail", [], number)
    if not _is_json(line):
        print("\n".join(lines))
        return 0
    print("[\n" + "\n,".join(_shown({"message": text}) for text in lines) + "\n]")
    return 0


def _poll(line: CommandLine, command: str) -> Iterator[dict[str, Any]]:
    """Poll a node and yield its replies until the duration ends or the user interrupts."""
    duration = line.options.get("duration")
    deadline = float("inf") if duration is None else time.monotonic() + float(duration)
    reply = invoke.ask(line, command, [], {"number": None})
    try:
        while time.monotonic() < deadline:
            time.sleep(max(0.0, min(POLL_S, deadline - time.monotonic())))
            reply = invoke.ask(line, command, [], {"number": reply["number"]})
            yield reply
    except KeyboardInterrupt:
        return


def log_tail_stream(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    for reply in _poll(line, "log_lines"):
        for text in reply["lines"]:
            print(text, flush=True)
    return 0


def consume_event_stream(command: CtlCommand, line: CommandLine) -> int:
    """Print each event as a line of JSON, so that other programs can read the events."""
    pattern = _pattern(line)
    for reply in _poll(line, "events"):
        for event in reply["events"]:
            if pattern.search(event["event"]):
                print(json.dumps(event, separators=(",", ":"), ensure_ascii=False), flush=True)
    return 0


def memory_breakdown(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply: dict[str, int] = invoke.ask(line, "memory_breakdown", [])
    unit = str(line.options.get("unit", "gb"))
    shares = {name: round(100 * size / max(sum(reply.values()), 1), 2) for name, size in reply.items()}
    if _is_json(line):
        rows = {name: {"bytes": size, "percentage": shares[name]} for name, size in reply.items()}
        print(json.dumps(rows, separators=(",", ":")))
        return 0
    for name, size in reply.items():
        shown = size if unit == "bytes" else round(size / UNITS[unit], 4)
        print(f"{name}: {shown} {unit} ({shares[name]}%)")
    return 0


def os_env(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply: dict[str, str] = invoke.ask(line, "os_env", [])
    if _is_json(line):
        print(_shown({"node": line.node, "result": "ok", "variables": reply}))
    else:
        print("\n".join(f"{name}={value}" for name, value in reply.items()))
    return 0


def certificates(command: CtlCommand, line: CommandLine) -> int:
    """Print each listener and the contents of its certificate files."""
    invoke.show_banner(command, line)
    reply: list[dict[str, Any]] = invoke.ask(line, "certificates", [])
    if _is_json(line):
        print(_shown(reply))
        return 0
    for row in reply:
        print(f"Interface: {row['interface']}, port: {row['port']}, protocol: {row['protocol']}\n")
        print("\n".join(row[name] for name in ("certfile", "cacertfile") if name in row))
    return 0


def list_node_auth_attempt_stats(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    rows: list[dict[str, Any]] = invoke.ask(line, command.name, [])
    if _is_json(line):
        print(_shown({"attempts": rows, "node": line.node, "result": "ok"}))
    elif rows:
        invoke.show_rows(command, line, rows)
    else:
        print(f"Node {line.node} reported no authentication attempt stats")
    return 0


PROGRAMS: dict[str, Program] = {
    "suspend_listeners": done,
    "resume_listeners": done,
    "change_cluster_node_type": done,
    "reset_node_auth_attempt_metrics": done,
    "log_location": _listing(_located),
    "tls_versions": _listing(_versions),
    "cipher_suites": _listing(_suites),
    "command_line_arguments": _listing(_arguments),
    "discover_peers": _listing(_peers, NO_PEERS),
    "resolve_hostname": _listing(_addresses),
    "log_tail": log_tail,
    "log_tail_stream": log_tail_stream,
    "consume_event_stream": consume_event_stream,
    "memory_breakdown": memory_breakdown,
    "os_env": os_env,
    "certificates": certificates,
    "list_node_auth_attempt_stats": list_node_auth_attempt_stats,
}
