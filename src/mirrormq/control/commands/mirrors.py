"""Commands for mirrored queues: synchronise mirrors, rebalance or move masters, drain a node, recover a
queue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from mirrormq.cluster import master_moves
from mirrormq.control.control_protocol import EXIT_USAGE, NOT_MIRRORED, ControlError, Request
from mirrormq.control.node_fanout import at
from mirrormq.control.node_interface import NodeShell
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Node, Queue

KINDS = ("all", "classic", "quorum", "stream")


def _queue(node: NodeShell, request: Request) -> Queue:
    found = node.metadata.state.queues.get((request.vhost, request.arguments[0]))
    if found is None:
        raise ControlError("not_found")
    return found


def _served(node: NodeShell, request: Request) -> Queue:
    queue = _queue(node, request)
    if queue.waits_for:
        waits_for = ", ".join(queue.waits_for)
        raise ControlError(
            f"Queue is down: it waits for {waits_for}. Start that node, or recover the queue from another "
            f"node's copy: 'mirrormqctl recover_queue {queue.name} NODE'."
        )
    return queue


async def sync_queue(node: NodeShell, request: Request) -> None:
    """Synchronise the mirrors of a queue, regardless of its policy."""
    queue, live = _served(node, request), node.live

    def here() -> None:
        if not live.synchronise(queue.vhost, queue.name, True):
            _check_mirrored(node, queue)

    await at(node, queue.ring.master, request, here)


async def cancel_sync_queue(node: NodeShell, request: Request) -> str | None:
    """Stop the synchronisation of a queue; return `not_syncing` if none was running."""
    queue, live = _served(node, request), node.live

    def here() -> str | None:
        syncing = live.synchronising(queue.vhost, queue.name)
        live.synchronise(queue.vhost, queue.name, False)
        return None if syncing else "not_syncing"

    found: str | None = await at(node, queue.ring.master, request, here)
    return found


def _check_mirrored(node: NodeShell, queue: Queue) -> None:
    """Raise rabbitmqctl's error unless a policy mirrors the queue; a mirrored queue may have no mirror at
    present."""
    row = node.live.queue(queue.vhost, queue.name)
    if row is None or row["slave_pids"] == "":
        raise ControlError(NOT_MIRRORED, reason=NOT_MIRRORED)


def rebalance(node: NodeShell, request: Request) -> Awaitable[list[dict[str, Any]]]:
    """Distribute the masters of mirrored queues evenly; return their number per node afterwards."""
    kind = request.arguments[0]
    if kind not in KINDS:
        raise ControlError(f"type {kind} is not supported. Try one of all, classic, quorum.")
    wanted = _chosen(request)
    # Written before the first await: the dispatcher's acting user applies only until then.
    if kind in ("all", "classic"):
        for command in master_moves.rebalance(node.metadata.state, wanted):
            node.metadata.write(command)
    return _masters_afterwards(node, wanted)


async def _masters_afterwards(node: NodeShell, wanted: Callable[[Queue], bool]) -> list[dict[str, Any]]:
    await node.settled()
    state = node.metadata.state
    policies = PolicyMatcher(state)
    masters = Counter(
        queue.ring.master
        for queue in state.queues.values()
        if wanted(queue) and (len(queue.ring.members) > 1 or _is_to_be_mirrored(policies, queue))
    )
    return [
        {
            "Node name": name,
            "Number of quorum queues": 0,
            "Number of replicated classic queues": masters[name],
        }
        for name in sorted(state.nodes)
    ]


def _is_to_be_mirrored(policies: PolicyMatcher, queue: Queue) -> bool:
    return (
        "ha-mode" in policies.effective(queue.vhost, queue.name, "queues").definition and not queue.exclusive
    )


def _chosen(request: Request) -> Callable[[Queue], bool]:
    try:
        vhosts = re.compile(str(request.options.get("vhost-pattern") or ".*"))
        names = re.compile(str(request.options.get("queue-pattern") or ".*"))
    except re.error as error:
        raise ControlError(f"the pattern is not a valid regular expression: {error}", EXIT_USAGE) from None
    return lambda queue: bool(vhosts.search(queue.vhost) and names.search(queue.name))


def move_master(node: NodeShell, request: Request) -> None:
    """Make the synchronised mirror on a node the master of a queue."""
    queue = _queue(node, request)
    try:
        node.metadata.write(master_moves.move(node.metadata.state, queue, request.arguments[1]))
    except master_moves.CannotMove as why:
        raise ControlError(str(why)) from None


def recover_queue(node: NodeShell, request: Request) -> None:
    """Make a node the master of a down queue, with the messages that this node holds."""
    queue = _queue(node, request)
    try:
        node.metadata.write(master_moves.recover(node.metadata.state, queue, request.arguments[1]))
    except master_moves.CannotMove as why:
        raise ControlError(str(why)) from None


def _own(node: NodeShell) -> Node:
    record = node.metadata.state.nodes.get(node.settings.name)
    if record is None:
        raise ControlError(f"node {node.settings.name} is not a member of a cluster")
    return record


def drain(node: NodeShell, request: Request) -> Awaitable[None]:
    """Enter maintenance mode: transfer masters to other nodes, close client connections and accept no new
    ones."""
    node.metadata.write(master_moves.drain(_own(node)))
    return _without_clients(node)


async def _without_clients(node: NodeShell) -> None:
    await node.suspend_listeners()
    node.live.close_connections("Node was put into maintenance mode")


def revive(node: NodeShell, request: Request) -> Awaitable[None]:
    """Leave maintenance mode."""
    node.metadata.write(master_moves.revive(_own(node)))
    return node.resume_listeners()


def critical_queues(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return the queues without a synchronised mirror besides this node."""
    return node.live.critical_queues()


COMMANDS = {
    "sync_queue": sync_queue,
    "cancel_sync_queue": cancel_sync_queue,
    "rebalance": rebalance,
    "move_master": move_master,
    "recover_queue": recover_queue,
    "drain": drain,
    "revive": revive,
    "critical_queues": critical_queues,
}
