"""Client of the control socket: connect, send one request, read one reply."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from mirrormq.control.control_protocol import (
    EXIT_TIMEOUT,
    EXIT_UNAVAILABLE,
    LENGTH_BYTES,
    ControlError,
    Request,
    frame,
    socket_path,
)


class NodeUnreachable(ControlError):
    """Failed connection to a node's control socket or HTTP API."""


def call(runtime_directory: Path, node_name: str, request: Request, timeout_s: float | None) -> Any:
    """Return the result of a command on a local node; raise ControlError with the node's error text."""
    path = socket_path(runtime_directory, node_name)
    document = {"verb": request.verb, "arguments": request.arguments, "options": request.options}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
        except OSError as error:
            raise NodeUnreachable(unreachable_text(node_name, path, error.strerror or str(error))) from None
        try:
            connection.sendall(frame(document))
            reply = json.loads(
                _receive(connection, int.from_bytes(_receive(connection, LENGTH_BYTES), "big"))
            )
        except TimeoutError:
            text = f"operation {request.verb} on node {node_name} timed out. Timeout value used: {timeout_s}"
            raise ControlError(text, EXIT_TIMEOUT) from None
        except (OSError, EOFError):
            raise ControlError(f"Node {node_name} closed the control connection before it replied.") from None
    if not reply["ok"]:
        raise ControlError.of_reply(reply)
    return reply["result"]


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(min(size - len(received), 1 << 20))
        if not part:
            raise EOFError
        received += part
    return bytes(received)


def unreachable_text(node_name: str, path: Path, reason: str) -> str:
    """Return the error text for a node that does not answer, with its likely causes."""
    others = (
        sorted(found_socket.stem for found_socket in path.parent.glob("*.sock"))
        if path.parent.is_dir()
        else []
    )
    running = f" Sockets found there: {', '.join(others)}." if others else ""
    return (
        f"unable to perform an operation on node '{node_name}': no node answers at {path} ({reason}). "
        "Start the node, name another one with -n, or set MIRRORMQ_RUNTIME_DIR to the directory its "
        f"server was started with.{running}"
    )


def answers(runtime_directory: Path, node_name: str, timeout_s: float = 1.0) -> bool:
    """Report whether a live node answers under this name."""
    try:
        call(runtime_directory, node_name, Request("ping"), timeout_s)
    except ControlError as error:
        return not isinstance(error, NodeUnreachable) and error.exit_code != EXIT_UNAVAILABLE
    return True
