"""Application states that commands require, with rabbitmqctl's error texts."""

from __future__ import annotations

IN_ANY_STATE = frozenset(
    {
        "ping", "await_startup", "stop", "shutdown", "start_app", "stop_app", "environment",
        "forget_cluster_node", "membership", "is_booting", "is_running", "check_running", "wait",
        "hash_password", "log_location", "log_tail", "log_lines", "os_env", "command_line_arguments",
        "certificates", "tls_versions", "cipher_suites", "discover_peers", "resolve_hostname",
    }
)  # fmt: skip
"""Commands that run in any state; a command in neither set requires a running application."""

WHILE_STOPPED = frozenset({"join_cluster", "reset", "force_reset", "force_boot", "change_cluster_node_type"})

LOCAL_ONLY = WHILE_STOPPED | {"start_app", "stop_app", "stop", "shutdown", "export_orphans"}
"""Commands that stop or change the process, or write files on its host: refused over HTTP."""

INTERNAL_COMMANDS = frozenset({"management", "membership", "node_facts", "queue_row"})
"""Internal commands that only nodes send to each other."""

RUNNING = "running"


def objection(command: str, app_state: str) -> str | None:
    """Return the reason why a command is not allowed in this state of the application, or None."""
    if command in IN_ANY_STATE:
        return None
    if command not in WHILE_STOPPED and app_state != RUNNING:
        return (
            "this command requires the 'rabbit' app to be running on the target node. "
            "Start it with 'mirrormqctl start_app'."
        )
    if command in WHILE_STOPPED and app_state == RUNNING:
        return (
            "this command requires the 'rabbit' app to be stopped on the target node. "
            "Stop it with 'mirrormqctl stop_app'."
        )
    return None


def local_only_error(command: str) -> str:
    """Return the error text for a command that is refused over HTTP."""
    return f"'{command}' concerns the node's process or files: run it on the node's machine, without --uri."
