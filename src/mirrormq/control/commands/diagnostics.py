"""Commands that report on the node process: log, events, memory, environment, certificates, TLS, logins."""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path
from typing import Any

from mirrormq.control.certificates import tls_listeners
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_USAGE, ControlError, Request
from mirrormq.control.node_interface import NodeShell

PREFIXES = ("MIRRORMQ_", "RABBITMQ_")
SECRET = ("COOKIE", "PASS", "SECRET", "URI")
CONCEALED = "(not shown)"
TAIL_BYTES_MAX = 1_000_000
"""Largest part of the log file that `log_tail` reads, from its end."""
NUMBER = "number"


def log_location(node: NodeShell, request: Request) -> list[str]:
    """Return the log destinations; standard error is included with --all or if there is no file."""
    files = node.logs.files
    console = ["<stderr>"] if node.logs.has_console else []
    return files + console if request.flag("all") or not files else files


def log_tail(node: NodeShell, request: Request) -> list[str]:
    """Return the last lines of the log file, or of the lines kept in memory if there is no file."""
    count = int(request.options[NUMBER])
    files = node.logs.files
    lines = _tail(Path(files[0])) if files else node.logs.lines_after(None)[1]
    return lines[-count:] if count > 0 else []


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES_MAX, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise ControlError(f"The log file {path} cannot be read: {error.strerror}.") from None
    lines = text.splitlines()
    # The read began in the middle of a line, so the first line is incomplete.
    return lines[1:] if size > TAIL_BYTES_MAX else lines


def log_lines(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return the lines logged after line `number`; none if no number is given."""
    after = request.options.get(NUMBER)
    count, lines = node.logs.lines_after(None if after is None else int(after))
    return {NUMBER: count, "lines": [] if after is None else lines}


def events(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return the events after event `number`; without a number, start to collect events."""
    after = request.options.get(NUMBER)
    count, found = node.live.events_after(None if after is None else int(after))
    return {NUMBER: count, "events": found}


def memory_breakdown(node: NodeShell, request: Request) -> dict[str, int]:
    """Return bytes per category, largest first."""
    parts = node.live.memory_parts(int(node.status()["memory"]["total"]))
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def os_env(node: NodeShell, request: Request) -> dict[str, str]:
    """Return the broker's environment variables without secret values."""
    found = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)}
    return {name: CONCEALED if _is_secret(name) else value for name, value in found.items()}


def _is_secret(word: str) -> bool:
    return any(part in word.upper() for part in SECRET)


def command_line_arguments(node: NodeShell, request: Request) -> list[str]:
    """Return the command line of the process without secret values."""
    shown = [sys.executable]
    for word in sys.argv:
        name, equals, _ = word.partition("=")
        shown.append(f"{name}={CONCEALED}" if equals and _is_secret(name) else word)
    return shown


def certificates(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return the certificates of each TLS listener, as stored in their files."""
    rows = []
    for row, options in tls_listeners(node.settings):
        for name, path in (("certfile", options.certfile), ("cacertfile", options.cacertfile)):
            if path is not None:
                row[name] = path.read_text(errors="replace") if path.is_file() else ""
        rows.append(row)
    return rows


TLS_VERSIONS = {
    "tlsv1.3": ssl.HAS_TLSv1_3,
    "tlsv1.2": ssl.HAS_TLSv1_2,
    "tlsv1.1": ssl.HAS_TLSv1_1,
    "tlsv1": ssl.HAS_TLSv1,
}


def tls_versions(node: NodeShell, request: Request) -> list[str]:
    return [name for name, available in TLS_VERSIONS.items() if available]


def cipher_suites(node: NodeShell, request: Request) -> list[str]:
    """Return the cipher suites of a listener without `ssl_options.ciphers`; with --all, all that OpenSSL
    supports."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if request.flag("all"):
        context.set_ciphers("ALL:COMPLEMENTOFALL")
    return [str(found["name"]) for found in context.get_ciphers()]


async def discover_peers(node: NodeShell, request: Request) -> list[str]:
    return await node.discover_peers()


async def resolve_hostname(node: NodeShell, request: Request) -> list[str]:
    version = 6 if request.options.get("address-family") == "ipv6" else 4
    try:
        return await node.resolve(request.arguments[0], version)
    except (OSError, UnicodeError):
        text = "Hostname does not resolve (resolution failed with an nxdomain)"
        raise ControlError(text, EXIT_DATA) from None


def list_node_auth_attempt_stats(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return login attempts per protocol. Attempts per source are not counted, as by default in RabbitMQ."""
    return [] if request.flag("by-source") else node.live.logins()


def reset_node_auth_attempt_metrics(node: NodeShell, request: Request) -> None:
    node.live.forget_logins()


async def suspend_listeners(node: NodeShell, request: Request) -> None:
    await node.suspend_listeners()


async def resume_listeners(node: NodeShell, request: Request) -> None:
    await node.resume_listeners()


def change_cluster_node_type(node: NodeShell, request: Request) -> None:
    """Accept `disc` and refuse `ram`: every node stores the metadata on disk."""
    if request.arguments[0] == "ram":
        raise ControlError("MirrorMQ has no RAM nodes: each keeps the metadata on its disk.", EXIT_USAGE)


COMMANDS = {
    "log_location": log_location,
    "log_tail": log_tail,
    "log_lines": log_lines,
    "events": events,
    "memory_breakdown": memory_breakdown,
    "os_env": os_env,
    "command_line_arguments": command_line_arguments,
    "certificates": certificates,
    "tls_versions": tls_versions,
    "cipher_suites": cipher_suites,
    "discover_peers": discover_peers,
    "resolve_hostname": resolve_hostname,
    "list_node_auth_attempt_stats": list_node_auth_attempt_stats,
    "reset_node_auth_attempt_metrics": reset_node_auth_attempt_metrics,
    "suspend_listeners": suspend_listeners,
    "resume_listeners": resume_listeners,
    "change_cluster_node_type": change_cluster_node_type,
}
