"""Help pages of `mirrormq`: commands in groups, the common ones first, each with its first sentence.

Values are named as in manual pages (`--data DIRECTORY`), not by their Python types.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

GROUPS = {
    "Common commands": ("cluster", "server", "top", "perf"),
    "Maintenance": ("backup", "restore", "migrate"),
    "Load, faults and Spark": ("chaos", "pipeline"),
    "Installation": ("haproxy-config", "keepalived-config", "completion", "alias"),
}
OTHERS = "Other commands"

VALUES = {
    "DIRECTORY": ("data", "directory", "history", "state", "to", "source"),
    "FILE": ("conf", "cookie_file", "lua", "report", "progress"),
    "HOST:PORT": (
        "amqp", "bind", "cluster", "management", "management_bind", "proxy", "statistics_bind",
        "tls", "tls_bind",
    ),
    "NAME": ("queue", "exchange", "interface", "sort", "vhost"),
    "NAME@HOST": ("name",),
    "NAME@HOST:PORT": ("join",),
    "URI": ("uri", "consume_uri", "master", "old", "old_amqp", "new", "new_amqp"),
    "SOCKET": ("admin_socket", "haproxy"),
    "KIND:NAME": ("accept",),
    "ADDRESS": ("address", "peer"),
    "PORT": ("amqp_port", "management_port", "cluster_port"),
    "N": (
        "ack_every", "batch", "confirm_window", "connections", "consumers", "maxconn", "messages", "nodes",
        "parallel", "prefetch", "producers", "publishers", "queues", "router", "seed",
    ),
    "BYTES": ("size",),
    "SECONDS": ("duration", "interval", "timeout", "warmup"),
    "TIME": ("grace", "retention", "trigger", "upkeep", "window"),
    "TYPE": ("queue_type", "exchange_type"),
    "FORMAT": ("file_format",),
    "KEY=VALUE": ("option",),
    "SQL": ("where",),
    "FAULT": ("fault",),
    "KEY": ("routing_key",),
    "COLUMNS": ("partition_by",),
    "MODE": ("mode",),
}  # fmt: skip
"""Parameters per name of their value. A parameter that is absent is named after itself."""

SPECIAL = {
    ("haproxy-config", "nodes"): "HOST:PORT",
    ("pipeline", "conf"): "KEY=VALUE",
    ("pipeline", "duration"): "TIME",
    ("pipeline", "queues"): "REGEX",
    ("package", "to"): "FILE",
    ("pipeline", "rate"): "N/s",
    ("pipeline", "speed"): "Nx",
    ("chaos", "rate"): "N",
    ("perf", "rate"): "N",
    ("migrate", "consumers"): "BACKEND",
    ("migrate", "producers"): "BACKEND",
}
"""Value names of parameters of one command or of one group of commands."""

_VALUE_OF = {parameter: value for value, parameters in VALUES.items() for parameter in parameters}


class CommandProgram(TyperGroup):
    """Help page of `mirrormq` itself."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups in the order of `GROUPS`."""
        grouped = [name for names in GROUPS.values() for name in names]
        others = tuple(name for name in self.commands if name not in grouped)
        for title, names in {**GROUPS, OTHERS: others}.items():
            _write(title, [(name, self.commands[name]) for name in names], formatter)


class CommandGroup(TyperGroup):
    """Help page of a group of commands, in the order of declaration."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        _write("Commands", list(self.commands.items()), formatter)


def _write(title: str, commands: list[tuple[str, Any]], formatter: Any) -> None:
    rows = [(name, first_sentence(command.help)) for name, command in commands if not command.hidden]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a help text, on one line."""
    line = " ".join((text or "").partition("\n\n")[0].split())
    sentence, stop, _ = line.partition(". ")
    return sentence + stop.strip()


def command_of(app: typer.Typer) -> Any:
    """Return the program of an application, with its values named."""
    command: Any = typer.main.get_command(app)
    _name_values(command, ())
    return command


def _name_values(command: Any, path: tuple[str, ...]) -> None:
    for parameter in command.params:
        if parameter.metavar is None and not getattr(parameter, "is_flag", False):
            special = [SPECIAL[name, parameter.name] for name in path if (name, parameter.name) in SPECIAL]
            own = parameter.name.upper().replace("_", "-")
            parameter.metavar = (*special, _VALUE_OF.get(parameter.name, own))[0]
        if parameter.param_type_name == "argument":
            # Typer prints the Python type behind each argument's name.
            parameter.display_type_rich = lambda ctx: ""
    for name, inner in getattr(command, "commands", {}).items():
        _name_values(inner, (*path, name))
