"""Parser of `mirrormqctl` command lines: arguments, options and unknown options."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrormq.cli.node_discovery import default_node, runtime_directory
from mirrormq.control.control_protocol import EXIT_USAGE

DEFAULT_TIMEOUT_S = 60.0
"""Default timeout of rabbitmqctl."""

VALUE_FLAGS = {
    "-n": "node", "--node": "node", "-t": "timeout", "--timeout": "timeout", "-p": "vhost",
    "--vhost": "vhost", "--formatter": "formatter", "-f": "formatter", "--uri": "uri",
    "--convert": "convert", "--priority": "priority", "--apply-to": "apply-to",
    "--description": "description", "--tags": "tags", "--default-queue-type": "default-queue-type",
    "--user": "user", "--limit": "limit", "--per-connection-delay": "per-connection-delay",
    "--format": "format", "--vhost-pattern": "vhost-pattern", "--queue-pattern": "queue-pattern",
    "--within": "within", "--unit": "unit", "--address": "address", "--queue-timeout": "queue-timeout",
    "-P": "pid", "--pid": "pid", "-N": "number", "--number": "number", "-d": "duration",
    "--duration": "duration", "--pattern": "pattern", "--address-family": "address-family",
}  # fmt: skip
SWITCHES = {
    "-q": "quiet", "--quiet": "quiet", "-s": "silent", "--silent": "silent", "-l": "longnames",
    "--longnames": "longnames", "--no-table-headers": "no-table-headers", "-?": "help", "--help": "help",
    "-h": "help", "--dry-run": "dry-run", "--only-down": "only-down", "--global": "global",
    "--online": "online", "--offline": "offline", "--local": "local", "--if-empty": "if-empty",
    "-e": "if-empty", "--if-unused": "if-unused", "-u": "if-unused", "--idempotent": "idempotent",
    "--disc": "disc", "--ram": "ram", "--skip-if-unchanged": "skip-if-unchanged",
    "--skip-unsupported": "skip-unsupported", "--all-or-nothing": "all-or-nothing", "-a": "all",
    "--all": "all", "--by-source": "by-source", "--status": "status", "-m": "minimal",
    "--minimal": "minimal", "-E": "enabled", "--enabled": "enabled",
    "--implicitly-enabled": "implicitly-enabled", "-v": "verbose", "--verbose": "verbose",
}  # fmt: skip
WHOLE_NUMBERS = ("timeout", "priority")
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
GENERAL = frozenset(
    {
        "node", "timeout", "vhost", "formatter", "uri", "quiet", "silent", "longnames",
        "no-table-headers", "help", "dry-run",
    }
)  # fmt: skip
"""Options that every command accepts."""


class UsageError(Exception):
    """Invalid command line: error text, exit code, heading and hint."""

    def __init__(
        self,
        text: str,
        exit_code: int = EXIT_USAGE,
        heading: str = "Error (argument validation)",
        hint: str = "",
    ) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.heading = heading
        self.hint = hint


@dataclass
class CommandLine:
    """Parsed command line."""

    words: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    """Unknown options and options with an invalid or missing value, as the error text shows them."""
    answering: str = ""
    """Name of the node that answers at the address of --uri, once it is known."""
    _default_node: str = ""

    @property
    def uri(self) -> str:
        """HTTP address of a remote node; empty if the control socket is used."""
        return str(self.options.get("uri") or os.environ.get("MIRRORMQ_URI", ""))

    @property
    def is_quiet(self) -> bool:
        machine_readable = self.options.get("formatter", "table") in ("json", "csv", "json_stream")
        return bool(self.options.get("quiet") or self.options.get("silent") or machine_readable)

    @property
    def timeout_s(self) -> float | None:
        return float(self.options.get("timeout", DEFAULT_TIMEOUT_S)) or None

    @property
    def node(self) -> str:
        if self.answering:
            return self.answering
        if not self._default_node:
            named = str(self.options.get("node", ""))
            self._default_node = full_name(named or default_node(os.environ, self.runtime_directory))
        return self._default_node

    @property
    def runtime_directory(self) -> Path:
        """Directory of the control sockets."""
        return runtime_directory(os.environ)


def full_name(node: str) -> str:
    """Return a node's name with its host; the host defaults to localhost."""
    return node if "@" in node else f"{node}@localhost"


def parse(arguments: list[str]) -> CommandLine:
    """Split a command line into arguments, options and unknown options."""
    line = CommandLine()
    rest = iter(arguments)
    for word in rest:
        flag, _, attached = word.partition("=")
        if word == "--":
            line.words.extend(rest)
        elif word in SWITCHES:
            line.options[SWITCHES[word]] = True
        elif flag in VALUE_FLAGS:
            value = attached if "=" in word else next(rest, None)
            if value is None:
                line.unknown.append(f"{word} : ")
            elif VALUE_FLAGS[flag] in WHOLE_NUMBERS and not WHOLE_NUMBER.fullmatch(value):
                line.unknown.append(f"{flag} : {value}")
            else:
                line.options[VALUE_FLAGS[flag]] = value
        elif word.startswith("--") and len(word) > 2:
            line.unknown.append(f"{word} : ")
        else:
            line.words.append(word)
    return line
