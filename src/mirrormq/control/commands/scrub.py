"""Command that scrubs a node's journal and reports the progress."""

from __future__ import annotations

from typing import Any

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell


def scrub(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Start a pass unless one is running; with `--status`, only report the progress."""
    return [node.live.scrub(start=not request.flag("status"))]


COMMANDS = {"scrub": scrub}
