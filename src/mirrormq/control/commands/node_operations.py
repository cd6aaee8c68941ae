"""Commands for the node as a whole: ping, status, watermarks, stop."""

from __future__ import annotations

import os
from typing import Any

from mirrormq.config.value_readers import size_bytes
from mirrormq.control.control_protocol import EXIT_DATA, ControlError, Request
from mirrormq.control.node_interface import AppState, ControlledNode, NodeShell


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


COMMANDS = {
    "ping": ping,
    "await_startup": await_startup,
    "status": status,
    "stop": stop,
    "set_vm_memory_high_watermark": set_vm_memory_high_watermark,
    "set_disk_free_limit": set_disk_free_limit,
}
