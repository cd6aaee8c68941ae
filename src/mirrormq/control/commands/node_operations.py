"""Commands for the node as a whole: ping, status, start, stop, watermarks, log and scrub."""

from __future__ import annotations

import os
from typing import Any

from mirrormq.config.keys import LOG_CATEGORIES, LOG_LEVELS
from mirrormq.config.value_readers import size_bytes
from mirrormq.control.control_protocol import EXIT_DATA, ControlError, Request
from mirrormq.control.node_interface import AppState, ControlledNode, NodeShell
from mirrormq.errors import DamageError, StartError


def ping(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return the process id and whether the node serves clients yet."""
    return {
        "name": node.settings.name,
        "pid": os.getpid(),
        "serving": node.serving,
        "app": node.app_state.value,
        "cluster": node.cluster.address,
    }


def await_startup(node: NodeShell, request: Request) -> bool:
    """Return True once the listeners are open; the control program polls this command."""
    if node.app_state is AppState.STOPPED:
        raise ControlError("rabbit_is_not_running")
    return node.serving


def status(node: ControlledNode, request: Request) -> dict[str, Any]:
    return node.status()


def stop(node: ControlledNode, request: Request) -> dict[str, Any]:
    """Stop the node; the reply names the process, so that the caller can wait for its end."""
    node.stop()
    return {"pid": os.getpid()}


def set_vm_memory_high_watermark(node: ControlledNode, request: Request) -> None:
    if request.arguments[0] == "absolute":
        node.set_memory_watermark(None, _size(request.arguments[1]))
    else:
        node.set_memory_watermark(_fraction(request.arguments[0]), None)


def set_disk_free_limit(node: ControlledNode, request: Request) -> None:
    if request.arguments[0] == "mem_relative":
        node.set_disk_free_limit(_fraction(request.arguments[1]), None)
    else:
        node.set_disk_free_limit(None, _size(request.arguments[0]))


def _size(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError:
        raise ControlError("Bad argument.", EXIT_DATA) from None


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ControlError("Bad argument.", EXIT_DATA) from None


def scrub(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Start a pass unless one is running; with `--status`, only report the progress."""
    return [node.live.scrub(start=not request.flag("status"))]


DEFAULT = "default"


def set_log_level(node: NodeShell, request: Request) -> None:
    """Set the level of one category, or of all categories without a level of their own."""
    category, level = request.arguments if len(request.arguments) == 2 else (DEFAULT, request.arguments[0])
    if level not in LOG_LEVELS:
        known = ", ".join(name for name in LOG_LEVELS if name != "notice")
        raise ControlError(f"level {level} is not supported. Try one of {known}")
    if category != DEFAULT and category not in LOG_CATEGORIES:
        raise ControlError(f"category {category} is not supported. Try one of {', '.join(LOG_CATEGORIES)}")
    node.logs.set_level(category, level)


def rotate_logs(node: NodeShell, request: Request) -> None:
    """Open new log files after the old ones were moved away."""
    node.logs.reopen()


async def start_app(node: NodeShell, request: Request) -> None:
    """Start the application; no error if it already runs."""
    try:
        await node.start_app()
    except (DamageError, OSError, StartError) as error:
        raise ControlError(f"The application cannot start: {error}") from None


async def stop_app(node: NodeShell, request: Request) -> None:
    await node.stop_app()


COMMANDS = {
    "ping": ping,
    "await_startup": await_startup,
    "status": status,
    "stop": stop,
    "set_vm_memory_high_watermark": set_vm_memory_high_watermark,
    "set_disk_free_limit": set_disk_free_limit,
    "scrub": scrub,
    "set_log_level": set_log_level,
    "rotate_logs": rotate_logs,
    "start_app": start_app,
    "stop_app": stop_app,
}
