"""Tells systemd, where it started the node, that clients can come, and that it is going (`Type=notify`)."""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET = "NOTIFY_SOCKET"
READY, STOPPING = "READY=1", "STOPPING=1"


def tell(state: str) -> None:
    """Does nothing where nobody asked to be told, or cannot hear it."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    if address.startswith("@"):  # a name outside the file system
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto(state.encode(), address)
