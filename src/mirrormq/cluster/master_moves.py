"""Moves of masters by the operator: move one, rebalance them, drain a node, recover a queue that is down.

Each function maps the metadata to commands that any node may write. If the metadata changes meanwhile, the
command has no effect; the operator sees that and repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from mirrormq.cluster.coordinator import Present, in_commands, present, statuses
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Node, Queue
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.placement import next_view
from mirrormq.replication.placement import rebalance as spread
from mirrormq.replication.promotion import MemberStatus, promote
from mirrormq.replication.replica_index import ReplicaIndex


class CannotMove(Exception):
    """Reason why a master cannot move, as a sentence for the operator."""


def successors(queue: Queue, now: Present) -> list[str]:
    """Return the nodes that can become master at once, without loss; oldest mirror first."""
    if queue.waits_for:
        return []
    view = queue.ring
    status = statuses(view, now)
    if status[view.master] is not MemberStatus.ALIVE:
        return []
    return [name for name in view.members[1:] if name in view.in_sync and status[name] is MemberStatus.ALIVE]


def move(state: MetadataState, queue: Queue, node: str) -> c.ChangeViews:
    """Make the synchronised mirror on `node` the master."""
    view = queue.ring
    if node not in state.nodes:
        raise CannotMove(f"node '{node}' is not a member of the cluster")
    if node == view.master and not queue.waits_for:
        return c.ChangeViews([])
    if node not in successors(queue, present(state.nodes)):
        raise CannotMove(f"node '{node}' has no synchronised mirror of {_named(queue)}")
    return c.ChangeViews([_handed(queue, node)])


def rebalance(state: MetadataState, concerns: Callable[[Queue], bool]) -> list[c.Command]:
    """Distribute the masters of mirrored queues evenly over the nodes that have a synchronised mirror."""
    now = present(state.nodes)
    masters: dict[int, str] = {}
    movable: dict[int, list[str]] = {}
    for queue in state.queues.values():
        if concerns(queue) and not queue.waits_for and len(queue.ring.members) > 1:
            masters[queue.queue_id] = queue.ring.master
            movable[queue.queue_id] = [name for name in successors(queue, now) if name not in now.resting]
    moves = spread(masters, movable)
    changes = [
        _handed(state.queues[state.queue_keys[queue_id]], node) for queue_id, node in sorted(moves.items())
    ]
    return [c.ChangeViews(batch) for batch in in_commands(changes)]


def recover(state: MetadataState, queue: Queue, node: str) -> c.ChangeViews:
    """Make a node master of a queue that is down, with the messages that this node has."""
    if not queue.waits_for:
        raise CannotMove(f"{_named(queue)} is not down")
    now = present(state.nodes)
    if node not in now.incarnations:
        raise CannotMove(f"node '{node}' does not run")
    view = queue.ring
    if node in view.members:
        after = promote(view, node, statuses(view, now))
    else:
        # Drop all members first, so that nothing of their state carries over into the new ring.
        after = view.with_members((), epoch=view.epoch)._replace(version=view.version)
        after = after.with_members((node,), epoch=view.epoch + 1)._replace(in_sync=frozenset({node}))
    return c.ChangeViews([c.ViewChange(queue.queue_id, after.with_incarnations(now.incarnations))])


def drain(node: Node) -> c.PutNode:
    """Put a node into maintenance: the coordinator moves its masters away and places no new ones there."""
    return c.PutNode(msgspec.structs.replace(node, maintenance=True))


def revive(node: Node) -> c.PutNode:
    """End the maintenance of a node. Masters do not move back by themselves."""
    return c.PutNode(msgspec.structs.replace(node, maintenance=False))


def still_to_leave(state: MetadataState, replica_index: ReplicaIndex, node: str) -> Iterator[Queue]:
    """Yield the queues whose masters a draining node can still move away. It may stop when none is left."""
    now = present(state.nodes)
    for queue_id in replica_index.held.get(node, {}):
        queue = state.queues[state.queue_keys[queue_id]]
        if queue.ring.master == node and any(name not in now.resting for name in successors(queue, now)):
            yield queue


def _handed(queue: Queue, node: str) -> c.ViewChange:
    view: View = queue.ring
    mirrors = tuple(name for name in view.members if name != node)
    return c.ViewChange(queue.queue_id, next_view(view, node, mirrors))


def _named(queue: Queue) -> str:
    return f"queue '{queue.name}' in vhost '{queue.vhost}'"
