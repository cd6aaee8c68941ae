"""Which verbs need the application to run, and which need it stopped, with rabbitmqctl's words for it."""

from __future__ import annotations

IN_ANY_STATE = frozenset(
    {
        "ping", "await_startup", "stop", "shutdown", "start_app", "stop_app", "environment",
        "forget_cluster_node", "membership",
    }
)  # fmt: skip
"""Verbs that do not ask; any verb that is in neither set needs a node that serves clients."""

WHILE_STOPPED = frozenset({"join_cluster", "reset", "force_reset", "force_boot"})

RUNNING = "running"


def objection(verb: str, app_state: str) -> str | None:
    """Why a verb cannot be done in this state of the application, if so."""
    if verb in IN_ANY_STATE:
        return None
    if verb not in WHILE_STOPPED and app_state != RUNNING:
        return (
            "this command requires the 'rabbit' app to be running on the target node. "
            "Start it with 'mirrormqctl start_app'."
        )
    if verb in WHILE_STOPPED and app_state == RUNNING:
        return (
            "this command requires the 'rabbit' app to be stopped on the target node. "
            "Stop it with 'mirrormqctl stop_app'."
        )
    return None
