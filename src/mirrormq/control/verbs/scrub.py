"""Scrubbing of a node's journal: begin a pass, show its progress."""

from __future__ import annotations

from typing import Any

from mirrormq.control.node import Shell
from mirrormq.control.protocol import Request


def scrub(node: Shell, request: Request) -> list[dict[str, Any]]:
    """Begin a pass unless one is running, or with `--status` only show the progress."""
    return [node.live.scrub(start=not request.flag("status"))]


VERBS = {"scrub": scrub}
