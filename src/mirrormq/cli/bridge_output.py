"""Output of the commands for shovels and federation: columns depend on the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mirrormq.cli import erlang_format, invoke
from mirrormq.cli.command_line import CommandLine
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.erlang_format import Atom

FEDERATION_STATUS = "federation_status"


def show_status(verb: CtlCommand, line: CommandLine) -> int:
    """Print the rows under the columns that any of them has; RabbitMQ takes those of the first row."""
    invoke.show_banner(verb, line)
    rows = invoke.ask(line, verb.name, line.words)
    if verb.name == FEDERATION_STATUS and line.options.get("formatter", "erlang") == "erlang":
        print(erlang_format.written([_erlang_map(row) for row in rows]))
        return 0
    columns = tuple(sorted({name for row in rows for name in row}))
    invoke.show_rows(replace(verb, columns=columns), line, rows)
    return 0


def _erlang_map(row: dict[str, str]) -> dict[Atom, str]:
    """Return a row as a map whose status and type are atoms."""
    return {Atom(name): Atom(value) if name in ("status", "type") else value for name, value in row.items()}


PROGRAMS: dict[str, Callable[[CtlCommand, CommandLine], int]] = {
    "shovel_status": show_status,
    FEDERATION_STATUS: show_status,
}
