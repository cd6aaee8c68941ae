"""Client-side parts of `mirrormqctl` commands: passwords from stdin, files, waiting, screens."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirrormq.cli import (
    bridge_commands,
    cluster_ctl,
    diagnostic_output,
    erlang_format,
    formatting,
    health_checks,
    invoke,
    mirroring,
    plugins,
    wait_command,
)
from mirrormq.cli.command_line import CommandLine, UsageError
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.node_report import report
from mirrormq.cli.status_view import status_screen
from mirrormq.control.commands.users import rabbit_hash
from mirrormq.control.control_client import NodeUnreachable
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_TIMEOUT, ControlError

POLL_S = 0.05
AWAIT_STARTUP_S = 300.0
"""Default timeout of rabbitmqctl for await_startup."""

USER_ADDED = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'mirrormqctl help set_permissions' to learn more."
)
NO_FRACTION = "The argument must be a number, such as 0.4."
NO_SIZE = "The argument must be a size in bytes, or with a unit, such as 500MB or 2GiB."
SIZE = re.compile(r"\d+([kKmMgG]([iI]?[bB])?)?")


def check_values(command: CtlCommand, words: list[str]) -> None:
    """Refuse values that rabbitmqctl refuses before it contacts a node."""
    if command.name == "set_vm_memory_high_watermark":
        _check_size(words[1:]) if words[0] == "absolute" else _check_fraction(words, 1.0)
    elif command.name == "set_disk_free_limit":
        _check_fraction(words[1:], float("inf")) if words[0] == "mem_relative" else _check_size(words)
    elif command.name == "await_online_nodes":
        cluster_ctl.check_count(words)
    elif command.name == "add_user" and not words[0]:
        raise UsageError("Bad argument: user cannot be an empty string", EXIT_DATA)
    elif command.name == "import_definitions" and words and words[0] != "-" and not Path(words[0]).is_file():
        raise UsageError(f"Bad argument: File {words[0]} does not exist", EXIT_DATA)


def _check_size(words: list[str]) -> None:
    if len(words) != 1 or not SIZE.fullmatch(words[0]):
        raise UsageError("Bad argument.", EXIT_DATA, hint=NO_SIZE)


def _check_fraction(words: list[str], most: float) -> None:
    try:
        (number,) = map(float, words)
    except ValueError:
        raise UsageError("Bad argument.", EXIT_DATA, hint=NO_FRACTION) from None
    if not 0.0 <= number <= most:
        raise UsageError("Bad argument: The threshold should be a fraction between 0.0 and 1.0", EXIT_DATA)


def add_user(command: CtlCommand, line: CommandLine) -> int:
    """Add a user and print a reminder of the next step."""
    code = invoke.perform(command, line)
    if not line.is_quiet:
        invoke.print_sentence(line, USER_ADDED)
    return code


def hash_password(command: CtlCommand, line: CommandLine) -> int:
    """Print RabbitMQ's default hash, which definitions of either broker may hold, without contacting a
    node."""
    if not line.is_quiet:
        print(f"Will hash password {line.words[0]}")
    print(rabbit_hash(line.words[0]))
    return 0


def list_limits(command: CtlCommand, line: CommandLine) -> int:
    """Print limits as rows with --global, else only the limits as JSON."""
    formatter = line.options.get("formatter", "table")
    if line.options.get("global") or formatter not in ("table", "json", "erlang"):
        return invoke.perform(command, line)
    invoke.show_banner(command, line)
    rows = invoke.ask(line, command.name, line.words)
    if formatter == "json":
        return _json_limits(command, line, rows)
    if rows or formatter == "table":
        invoke.print_sentence(line, formatting.compact_json(rows[0]["limits"]) if rows else "")
    else:
        print(erlang_format.written("{}" if command.name == "list_user_limits" else []))
    return 0


def _json_limits(command: CtlCommand, line: CommandLine, rows: list[dict[str, Any]]) -> int:
    """Print limits in rabbitmqctl's JSON forms: a message for users, a value for vhosts, or an empty list."""
    limits = formatting.compact_json(rows[0]["limits"]) if rows else "{}"
    shown: Any = {"node": line.node, "result": "ok", "value": limits} if rows else []
    if command.name == "list_user_limits":
        shown = {"message": limits}
    print(json.dumps(shown, separators=(",", ":")))
    return 0


def ping(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    invoke.ask(line, "ping", [])
    invoke.print_sentence(line, "Ping succeeded")
    return 0


def status(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    found = invoke.ask(line, "status", [])
    if invoke.is_erlang(line):
        invoke.show_facts(line, found)
        return 0
    is_json = line.options.get("formatter") == "json"
    print(json.dumps(found, separators=(",", ":")) if is_json else "\n".join(status_screen(found)))
    return 0


def await_startup(command: CtlCommand, line: CommandLine) -> int:
    """Poll until the node reports that it serves clients."""
    limit_s = float(line.options.get("timeout", AWAIT_STARTUP_S))
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if invoke.ask(line, "await_startup", []):
                return 0
        except NodeUnreachable:
            if time.monotonic() >= deadline:
                raise
        if time.monotonic() >= deadline:
            raise ControlError(f"Node {line.node} did not start within {limit_s} seconds.", EXIT_TIMEOUT)
        time.sleep(POLL_S)


def stop(command: CtlCommand, line: CommandLine) -> int:
    """Stop the node; `stop PIDFILE` also waits for its process to end."""
    invoke.show_banner(command, line)
    try:
        process_id = int(invoke.ask(line, "stop", [])["pid"])
    except NodeUnreachable:
        if line.options.get("idempotent"):
            return 0
        raise
    if line.words:
        _await_end(process_id, line)
    return 0


def shutdown(command: CtlCommand, line: CommandLine) -> int:
    """Stop the node and wait for its process to end."""
    process_id = int(invoke.ask(line, "ping", [])["pid"])
    whose = f"RabbitMQ node {line.node} running at PID {process_id}"
    if not line.is_quiet:
        print(f"Shutting down {whose}", flush=True)
    invoke.ask(line, "stop", [])
    if not line.is_quiet:
        print(f"Waiting for PID {process_id} to terminate", flush=True)
    _await_end(process_id, line)
    if not line.is_quiet:
        print(f"{whose} successfully shut down")
    return 0


def _await_end(process_id: int, line: CommandLine) -> None:
    deadline = time.monotonic() + (line.timeout_s or float("inf"))
    while _is_alive(process_id):
        if time.monotonic() >= deadline:
            raise ControlError(f"Process {process_id} has not ended within the timeout.", EXIT_TIMEOUT)
        time.sleep(POLL_S)


def _is_alive(process_id: int) -> bool:
    """Report whether a process runs; a zombie, which its parent has not reaped yet, does not count."""
    try:
        os.kill(process_id, 0)
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        # A process of another user cannot be signalled, but is alive; without /proc assume the same.
        return Path(f"/proc/{process_id}").exists() or not Path("/proc/self").exists()


def export_definitions(command: CtlCommand, line: CommandLine) -> int:
    """Write the definitions to a file in this program, because the node may run as another user."""
    target = line.words[0]
    if target != "-":
        invoke.show_banner(command, line)
    document = json.dumps(invoke.ask(line, "export_definitions", []), separators=(",", ":"), sort_keys=True)
    if target == "-":
        sys.stdout.write(document)
        return 0
    try:
        Path(target).write_text(document)
    except OSError as error:
        raise ControlError(f"Cannot write {target}: {error.strerror}.", EXIT_DATA) from None
    return 0


def import_definitions(command: CtlCommand, line: CommandLine) -> int:
    """Import definitions. Unlike rabbitmqctl's, the command ends when the import is complete."""
    source = line.words[0] if line.words else "-"
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ControlError(f"Cannot read {source}: {error}.", EXIT_DATA) from None
    if source != "-":
        invoke.show_banner(command, line)
    report = invoke.ask(line, "import_definitions", [text])
    # Nodes of earlier versions import all or nothing, and report nothing.
    skipped = report["skipped"] if isinstance(report, dict) else []
    for sentence in report["converted"] if isinstance(report, dict) and not line.is_quiet else []:
        print(f"Converted: {sentence}.")
    _show_skipped(skipped, line)
    if skipped and not line.options.get("skip-unsupported"):
        return EXIT_DATA
    if not line.is_quiet:
        print("Successfully imported the definitions.")
    return 0


def _show_skipped(skipped: list[dict[str, str]], line: CommandLine) -> None:
    if not skipped:
        return
    if line.options.get("skip-unsupported"):
        print(f"Warning: {len(skipped)} of the entries were skipped:", file=sys.stderr)
    else:
        print(f"Error:\n{skipped[0]['reason']}", file=sys.stderr)
        print(f"The rest was imported; {len(skipped)} of the entries were not:", file=sys.stderr)
    for entry in skipped:
        print(f"  {entry['kind']} {entry['name']}: {entry['reason']}", file=sys.stderr)
        print(f"    {entry['remedy']}", file=sys.stderr)


PROGRAMS: dict[str, Callable[[CtlCommand, CommandLine], int]] = {
    "add_user": add_user,
    "list_vhost_limits": list_limits,
    "list_user_limits": list_limits,
    "ping": ping,
    "status": status,
    "await_startup": await_startup,
    "stop": stop,
    "shutdown": shutdown,
    "export_definitions": export_definitions,
    "import_definitions": import_definitions,
    **cluster_ctl.PROGRAMS,
    **health_checks.PROGRAMS,
    **diagnostic_output.PROGRAMS,
    **mirroring.PROGRAMS,
    **plugins.PROGRAMS,
    **wait_command.PROGRAMS,
    **bridge_commands.PROGRAMS,
    "hash_password": hash_password,
    "report": report,
}
