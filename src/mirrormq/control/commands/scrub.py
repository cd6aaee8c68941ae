"""Scrubbing of a node's journal: begin a pass, show its progress."""

from __future__ import annotations

from typing import Any

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell


def scrub(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Begin a pass unless one is running, or with `--status` only show the progress."""
    return [node.live.scrub(start=not request.flag("status"))]


COMMANDS = {"scrub": scrub}
