"""Commands that purge and delete queues."""

from __future__ import annotations

from typing import Any

from mirrormq.control.control_protocol import EXIT_USAGE, ControlError, Request
from mirrormq.control.node_fanout import at
from mirrormq.control.node_interface import NodeShell
from mirrormq.metadata.commands import DeleteQueue
from mirrormq.metadata.records import Queue

ACTOR = "cli_user"
"""Acting user under which RabbitMQ's tool deletes queues."""


def _master(node: NodeShell, request: Request) -> str:
    """Return the queue's master, or this node if the queue does not exist."""
    record = node.metadata.state.queues.get((request.vhost, request.arguments[0]))
    return node.settings.name if record is None else record.ring.master


async def purge_queue(node: NodeShell, request: Request) -> None:
    live, vhost, name = node.live, request.vhost, request.arguments[0]
    record = node.metadata.state.queues.get((vhost, name))
    if record is not None and record.waits_for:
        raise ControlError("not_found")
    await at(node, _master(node, request), request, lambda: _purged(live.purge_queue(vhost, name)))


def _purged(count: int | None) -> None:
    if count is None:
        raise ControlError("not_found")


def queue_row(node: NodeShell, request: Request) -> dict[str, Any] | None:
    """Return the row of one queue as this node sees it."""
    return node.live.queue(request.vhost, request.arguments[0])


async def delete_queue(node: NodeShell, request: Request) -> str:
    vhost, name = request.vhost, request.arguments[0]
    record = node.metadata.state.queues.get((vhost, name))
    if record is not None and record.waits_for:
        return _delete_down_queue(node, request, record)
    # Only the master knows the queue's messages and consumers.
    row_request = Request("queue_row", [name], {"vhost": vhost})
    row = await at(node, _master(node, row_request), row_request, lambda: queue_row(node, row_request))
    if row is None:
        raise ControlError("Queue not found", EXIT_USAGE)
    ready = row["messages_ready"]
    if request.flag("if-unused") and row["consumers"]:
        raise ControlError("Queue is in use", EXIT_USAGE)
    if request.flag("if-empty") and ready:
        raise ControlError("Queue is not empty", EXIT_USAGE)
    with node.metadata.acting_as(ACTOR):
        node.metadata.write(DeleteQueue(vhost, name))
    return f"Queue was successfully deleted with {ready} ready messages"


def _delete_down_queue(node: NodeShell, request: Request, record: Queue) -> str:
    """Delete a down queue at the operator's request; its messages are lost."""
    waits_for = ", ".join(record.waits_for)
    if request.flag("if-empty"):
        raise ControlError(
            f"Queue is down (it waits for {waits_for}), so it is unknown whether it is empty. "
            "Start that node, or omit --if-empty",
            EXIT_USAGE,
        )
    with node.metadata.acting_as(ACTOR):
        node.metadata.write(DeleteQueue(record.vhost, record.name))
    return f"Queue was successfully deleted while it was down, waiting for {waits_for}"


COMMANDS = {"purge_queue": purge_queue, "queue_row": queue_row, "delete_queue": delete_queue}
