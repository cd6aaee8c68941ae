"""Copies on the disks of a queue's members and former members, as far as they are reported, with the trust
that their nodes' journals deserve."""

from __future__ import annotations

from collections.abc import Mapping

from mirrormq.metadata.records import Node, Queue
from mirrormq.replication.promotion import CopyTrust, FormerCopy, StoredCopy


def stored_copies(queue: Queue, nodes: Mapping[str, Node]) -> dict[str, StoredCopy]:
    """Reports of members that run in the incarnation that reported."""
    view = queue.ring
    return {
        copy.node: StoredCopy(_trust(view.incarnation_of(copy.node), nodes[copy.node]), copy.position)
        for copy in queue.copies
        if copy.node in view.members
        and copy.node in nodes
        and nodes[copy.node].running
        and nodes[copy.node].incarnation == copy.incarnation
    }


def former_copies(queue: Queue, nodes: Mapping[str, Node]) -> dict[str, FormerCopy]:
    """Former members of a queue that belong to the cluster, with the reports of those that run."""
    positions = {
        copy.node: copy.position
        for copy in queue.copies
        if copy.node in nodes
        and nodes[copy.node].running
        and nodes[copy.node].incarnation == copy.incarnation
    }
    return {
        former.node: FormerCopy(
            former.version,
            former.incarnation,
            StoredCopy(_trust(former.incarnation, nodes[former.node]), positions[former.node])
            if former.node in positions
            else None,
        )
        for former in queue.former
        if former.node in nodes
    }


def _trust(joined: int, node: Node) -> CopyTrust:
    """Trust in a copy that a member took part in the ring with, in its incarnation `joined`."""
    if node.has_incomplete_copy(joined):
        return CopyTrust.LOST
    if node.has_lost_copy(joined):
        return CopyTrust.OUTDATED
    return CopyTrust.INTACT if joined >= node.sound_since else CopyTrust.DOUBTFUL
