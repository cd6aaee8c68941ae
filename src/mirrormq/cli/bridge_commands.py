"""Commands of `mirrormqctl` for shovels and federation, and their output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mirrormq.cli import erlang_format, invoke
from mirrormq.cli.command_line import CommandLine
from mirrormq.cli.ctl_command import VHOST, CtlCommand
from mirrormq.cli.erlang_format import Atom

ALL = (
    CtlCommand("shovel_status", "Shovel", "Lists shovels with their state and its reason", "", (0, 0),
         "Shovel status on node {node}", example="shovel_status --formatter json"),
    CtlCommand("delete_shovel", "Shovel", "Deletes a dynamic shovel, in any state", f"{VHOST} <name>", (1, 1),
         "Deleting shovel {0} in vhost {vhost}", example="delete_shovel -p / my-shovel"),
    CtlCommand("restart_shovel", "Shovel", "Restarts a dynamic or static shovel", f"{VHOST} <name>", (1, 1),
         "Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}",
         example="restart_shovel -p / my-shovel"),
    CtlCommand("federation_status", "Federation", "Lists federation links with their status and its reason",
         "[--only-down]", (0, 0), "Listing federation links {which_links}on node {node}...",
         options=("only-down",), example="federation_status --only-down"),
    CtlCommand("restart_federation_link", "Federation", "Restarts a federation link",
         "<id>", (1, 1), "Restarting federation link {0} on node {node}",
         example="restart_federation_link e2c575e3"),
)  # fmt: skip


FEDERATION_STATUS = "federation_status"


def show_status(command: CtlCommand, line: CommandLine) -> int:
    """Print the rows under the columns that any of them has; RabbitMQ takes those of the first row."""
    invoke.show_banner(command, line)
    rows = invoke.ask(line, command.name, line.words)
    if command.name == FEDERATION_STATUS and line.options.get("formatter", "erlang") == "erlang":
        print(erlang_format.written([_erlang_map(row) for row in rows]))
        return 0
    columns = tuple(sorted({name for row in rows for name in row}))
    invoke.show_rows(replace(command, columns=columns), line, rows)
    return 0


def _erlang_map(row: dict[str, str]) -> dict[Atom, str]:
    """Return a row as a map whose status and type are atoms."""
    return {Atom(name): Atom(value) if name in ("status", "type") else value for name, value in row.items()}


PROGRAMS: dict[str, Callable[[CtlCommand, CommandLine], int]] = {
    "shovel_status": show_status,
    FEDERATION_STATUS: show_status,
}
