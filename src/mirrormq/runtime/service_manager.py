"""Service manager notification: reports READY and STOPPING to systemd (`Type=notify`)."""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET = "NOTIFY_SOCKET"
READY, STOPPING = "READY=1", "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to systemd. Do nothing if systemd did not start the node, or does not listen."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    if address.startswith("@"):  # abstract socket name
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto(state.encode(), address)
