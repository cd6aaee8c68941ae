"""Client-side commands of rabbitmq-plugins: every built-in plugin is enabled and running."""

from __future__ import annotations

import json
import re
from typing import Any

from mirrormq.cli import health_checks, invoke
from mirrormq.cli.command_line import CommandLine, UsageError
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.plugin_commands import BUILT_IN, NEEDED_BY_OTHERS
from mirrormq.control import hints
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_SOFTWARE, ControlError

EVERYTHING = ".*"


def list_plugins(command: CtlCommand, line: CommandLine) -> int:
    pattern = line.words[0] if line.words else EVERYTHING
    found = _matching(pattern, line)
    version = str(invoke.ask(line, "status", [])["rabbitmq_version"])
    is_minimal = bool(line.options.get("minimal"))
    if line.options.get("formatter") == "json":
        rows = [_row(name, version, is_minimal) for name in found]
        shown = {"format": "minimal" if is_minimal else "normal", "plugins": rows, "status": "running"}
        print(_compact(shown))
        return 0
    if not line.is_quiet:
        print(f'Listing plugins with pattern "{pattern}" ...')
    if is_minimal:
        print("\n".join(found))
        return 0
    if not line.is_quiet:
        print(" Configured: E = explicitly enabled; e = implicitly enabled")
        print(f" | Status: * = running on {line.node}\n |/")
    width = max(map(len, found), default=0)
    for name in found:
        if line.options.get("verbose"):
            print(f"[{_mark(name)}*] {name}\n     Version:     \t{version}")
            print("     Dependencies:\t[]\n     Description: \tbuilt in")
        else:
            print(f"[{_mark(name)}*] {name:<{width}} {version}")
    return 0


def _matching(pattern: str, line: CommandLine) -> list[str]:
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"Bad argument: the pattern is not a regular expression: {error}", EXIT_DATA
        ) from None
    only_explicit = bool(line.options.get("enabled"))
    return [
        name for name in BUILT_IN if wanted.search(name) and not (only_explicit and name in NEEDED_BY_OTHERS)
    ]


def _mark(name: str) -> str:
    return "e" if name in NEEDED_BY_OTHERS else "E"


def _row(name: str, version: str, is_minimal: bool) -> dict[str, Any]:
    """Return the JSON row of a plugin; RabbitMQ writes a version as a list of character codes."""
    if is_minimal:
        return {"name": name}
    numbers = list(version.encode())
    enabled = "implicit" if name in NEEDED_BY_OTHERS else "enabled"
    return {
        "name": name, "enabled": enabled, "running": True, "version": numbers, "running_version": numbers,
    }  # fmt: skip


def is_enabled(command: CtlCommand, line: CommandLine) -> int:
    if not line.is_quiet:
        print(f"Asking node {line.node} if {_subject('plugin', line.words)} enabled...")
    missing = [name for name in line.words if name not in BUILT_IN]
    if not missing:
        sentence = f"{_subject('Plugin', line.words)} enabled on node {line.node}"
        return health_checks.passed(line, sentence, message=sentence)
    others = f"Enabled plugins and dependencies: {', '.join(BUILT_IN)}"
    sentence = f"{_subject('Plugin', missing)} not enabled on node {line.node}. {others}"
    return health_checks.failed(line, sentence, message=sentence)


def _subject(noun: str, names: list[str]) -> str:
    """Return the subject and verb of a sentence about plugins."""
    return f"{noun} {names[0]} is" if len(names) == 1 else f"{noun}s {', '.join(names)} are"


def enable(command: CtlCommand, line: CommandLine) -> int:
    if not line.words and not line.options.get("all"):
        raise UsageError("not enough arguments.")
    invoke.show_banner(command, line)
    if line.words and not line.is_quiet:
        print("\n".join(line.words))
    missing = [name for name in line.words if name not in BUILT_IN]
    if missing:
        atoms = ", ".join(f":{name}" for name in missing)
        hint = hints.no_such("plugin", missing[0], BUILT_IN, "mirrormqctl list")
        raise ControlError(f"{{:plugins_not_found, [{atoms}]}}", EXIT_SOFTWARE, hint=hint)
    if line.options.get("formatter") == "json":
        changes = {"mode": "online", "set": BUILT_IN, "enabled": [], "started": [], "stopped": []}
        print("[\n" + "\n,".join(map(_compact, (BUILT_IN, changes))) + "\n]")
        return 0
    print("\n  ".join(["The following plugins have been configured:", *BUILT_IN]))
    print(f"Applying plugin configuration to {line.node}...\nPlugin configuration unchanged.")
    return 0


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


PROGRAMS = {"list": list_plugins, "is_enabled": is_enabled, "enable": enable}
