"""Which verbs need the application to run, and which need it stopped, with rabbitmqctl's words for it."""

from __future__ import annotations

IN_ANY_STATE = frozenset(
    {
        "ping", "await_startup", "stop", "shutdown", "start_app", "stop_app", "environment",
        "forget_cluster_node", "membership", "is_booting", "is_running", "check_running", "wait",
        "hash_password", "log_location", "log_tail", "log_lines", "os_env", "command_line_arguments",
        "certificates", "tls_versions", "cipher_suites", "discover_peers", "resolve_hostname",
    }
)  # fmt: skip
"""Verbs that do not ask; any verb that is in neither set needs a node that serves clients."""

WHILE_STOPPED = frozenset({"join_cluster", "reset", "force_reset", "force_boot", "change_cluster_node_type"})

AT_THE_MACHINE = WHILE_STOPPED | {"start_app", "stop_app", "stop", "shutdown", "export_orphans"}
"""What ends or changes the process, or writes files where it runs: not for who has only a login."""

BETWEEN_NODES = frozenset({"management", "membership", "node_facts", "queue_row"})
"""What nodes ask each other and no operator does."""

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


def at_the_machine(verb: str) -> str:
    """The refusal of what cannot be done over HTTP."""
    return f"'{verb}' concerns the node's process or files: run it on the node's machine, without --uri."
