"""Remedies for entries of a definitions file that cannot be imported."""

from __future__ import annotations

from typing import Any

from mirrormq.exchanges.exchange_types import KINDS

OTHERWISE = "Correct the entry and import the file again."


def remedy(kind: str, entry: dict[str, Any], error: Exception) -> str:
    """Return one sentence that says what to do about an entry."""
    if isinstance(error, KeyError):
        return f"Add the key {error} to the entry and import the file again."
    if "Virtual host" in str(error):
        return f"Add it to the file, or run mirrormqctl add_vhost {entry.get('vhost')}; then import again."
    arguments = entry.get("arguments")
    queue_type = arguments.get("x-queue-type") if isinstance(arguments, dict) else None
    if kind == "queues" and queue_type == "quorum":
        return "Import with --convert quorum=mirrored: it becomes a classic queue with a mirroring policy."
    if kind == "queues" and queue_type == "stream":
        return "Streams have no equivalent: declare a classic queue and archive it with mirrormq pipeline."
    if kind == "exchanges" and entry.get("type") not in KINDS:
        return f"Change its type to one of {', '.join(sorted(KINDS))}."
    if kind == "bindings" and "was not imported" in str(error):
        return "Follow the remedy of that entry; then import the file again."
    if kind == "users" and "hash" in str(error):
        return f"Export the user again, or set a password (mirrormqctl add_user {entry.get('name')})."
    return OTHERWISE
