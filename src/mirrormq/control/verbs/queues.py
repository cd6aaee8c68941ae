"""Emptying and deleting queues."""

from __future__ import annotations

from mirrormq.control.node import Node
from mirrormq.control.protocol import EXIT_USAGE, ControlError, Request
from mirrormq.metadata.commands import DeleteQueue


def purge_queue(node: Node, request: Request) -> None:
    if node.live.purge_queue(request.vhost, request.arguments[0]) is None:
        raise ControlError("not_found")


def delete_queue(node: Node, request: Request) -> str:
    vhost, name = request.vhost, request.arguments[0]
    row = node.live.queue(vhost, name)
    if row is None:
        raise ControlError("Queue not found", EXIT_USAGE)
    ready = row["messages_ready"]
    if request.flag("if-unused") and row["consumers"]:
        raise ControlError("Queue is in use", EXIT_USAGE)
    if request.flag("if-empty") and ready:
        raise ControlError("Queue is not empty", EXIT_USAGE)
    node.metadata.write(DeleteQueue(vhost, name))
    return f"Queue was successfully deleted with {ready} ready messages"


VERBS = {"purge_queue": purge_queue, "delete_queue": delete_queue}
