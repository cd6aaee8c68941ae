"""Command `mirrormqctl wait`: wait until the node with a given process id serves clients, for start
scripts."""

from __future__ import annotations

import time
from pathlib import Path

from mirrormq.cli import invoke
from mirrormq.cli.command_line import CommandLine, UsageError
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.control.control_client import NodeUnreachable
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_SOFTWARE, EXIT_TIMEOUT, ControlError

POLL_S = 0.1
DEFAULT_TIMEOUT_S = 10.0
"""Default timeout of rabbitmqctl for wait."""
APPLICATIONS = "rabbit_and_plugins"


def wait(command: CtlCommand, line: CommandLine) -> int:
    """Wait for a process given by its id, or by a file with the id that may not exist yet."""
    if bool(line.words) == ("pid" in line.options):
        text = "Cannot specify both pid and pidfile" if line.words else "No pid or pidfile given"
        raise UsageError(text, EXIT_DATA)
    deadline = time.monotonic() + float(line.options.get("timeout", DEFAULT_TIMEOUT_S))
    process_id = _number(line.options["pid"]) if not line.words else _from_file(line, deadline)
    _print_status(line, f"pid is {process_id}")
    _print_status(line, f"Waiting for applications '{APPLICATIONS}' to start on node '{line.node}'")
    while not _serves(line):
        if not Path(f"/proc/{process_id}").exists():
            raise ControlError(f"process {process_id} has ended", EXIT_SOFTWARE)
        _pause(line, deadline)
    _print_status(line, f"Applications '{APPLICATIONS}' are running on node '{line.node}'")
    return 0


def _from_file(line: CommandLine, deadline: float) -> int:
    path = Path(line.words[0])
    _print_status(line, f"Waiting for pid file '{path}' to appear")
    while not path.exists() or not path.read_text().strip():
        _pause(line, deadline)
    return _number(path.read_text().strip())


def _number(text: str) -> int:
    if not str(text).isdecimal():
        raise ControlError(f"Error: could not read pid. Detail: {text}", EXIT_DATA)
    return int(text)


def _serves(line: CommandLine) -> bool:
    try:
        return bool(invoke.ask(line, "ping", [])["serving"])
    except NodeUnreachable:
        return False


def _pause(line: CommandLine, deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise ControlError(f"Node {line.node} did not start in time.", EXIT_TIMEOUT)
    time.sleep(POLL_S)


def _print_status(line: CommandLine, sentence: str) -> None:
    if not line.is_quiet:
        print(sentence, flush=True)


PROGRAMS = {"wait": wait}
