"""Commands that change the log of a running node."""

from __future__ import annotations

from mirrormq.config.keys import LOG_CATEGORIES, LOG_LEVELS
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import NodeShell

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


COMMANDS = {"set_log_level": set_log_level, "rotate_logs": rotate_logs}
