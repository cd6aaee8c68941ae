"""Output of the commands for shovels and federation: columns depend on the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mirrormq.cli import invoke
from mirrormq.cli.command_line import CommandLine
from mirrormq.cli.ctl_command import CtlCommand


def show_status(verb: CtlCommand, line: CommandLine) -> int:
    """Print the rows under the columns that any of them has; RabbitMQ takes those of the first row."""
    invoke.show_banner(verb, line)
    rows = invoke.ask(line, verb.name, line.words)
    columns = tuple(sorted({name for row in rows for name in row}))
    invoke.show_rows(replace(verb, columns=columns), line, rows)
    return 0


PROGRAMS: dict[str, Callable[[CtlCommand, CommandLine], int]] = {"shovel_status": show_status}
