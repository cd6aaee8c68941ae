"""Command `mirrormqctl report`: the output of other commands in sequence, for troubleshooting."""

from __future__ import annotations

import os
from typing import Any

from mirrormq.cli import invoke
from mirrormq.cli.command_line import CommandLine
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.ctl_commands import COMMANDS

OF_THE_NODE = ("status", "cluster_status", "environment", "list_connections", "list_channels")
OF_A_VHOST = ("list_queues", "list_exchanges", "list_bindings", "list_permissions", "list_policies")
PASSED_ON = frozenset({"node", "timeout", "uri"})
SECRET = ("COOKIE", "PASS")


def report(command: CtlCommand, line: CommandLine) -> int:
    """Run the commands in rabbitmqctl's order."""
    invoke.show_banner(command, line)
    for name in OF_THE_NODE:
        _show(name, line)
    print(f"\nListing MirrorMQ's environment variables as this program sees them on {line.node} ...")
    for variable, value in sorted(os.environ.items()):
        if variable.startswith("MIRRORMQ_"):
            print(f"{variable}={'(not shown)' if any(word in variable for word in SECRET) else value}")
    vhosts = [str(row["name"]) for row in invoke.ask(line, "list_vhosts", [])]
    for vhost in vhosts:
        for name in OF_A_VHOST:
            _show(name, line, vhost)
    _show("list_global_parameters", line)
    for vhost in vhosts:
        _show("list_parameters", line, vhost)
    return 0


def _show(name: str, line: CommandLine, vhost: str | None = None) -> None:
    """Run one command with all its columns."""
    from mirrormq.cli.client_side import PROGRAMS  # Imported here because client_side imports this module.

    command = COMMANDS[name]
    options: dict[str, Any] = {key: value for key, value in line.options.items() if key in PASSED_ON}
    if vhost is not None:
        options["vhost"] = vhost
    print(flush=True)
    command_line = CommandLine(list(command.all_columns), options, answering=line.answering)
    PROGRAMS.get(name, invoke.perform)(command, command_line)
