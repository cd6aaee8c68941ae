"""Ring status for operators: members, synchronised members, and lag of the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mirrormq.metadata import records
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.mirrored_exchanges import mirrored_definition
from mirrormq.replication.replication_host import ReplicationHost


def is_mirrored(broker: ReplicationHost, record: records.Queue) -> bool:
    """Return whether the queue has mirrors, or would have some if nodes for them existed."""
    if len(record.ring.members) > 1:
        return True
    definition = mirrored_definition(broker.metadata.state, broker.policies, record)
    return "ha-mode" in definition and not record.exclusive


def ring_facts(broker: ReplicationHost, record: records.Queue) -> dict[str, Any]:
    """Return the ring as in the metadata. On the master also lag, synchronisation progress, and the number
    of messages that mirrors lack."""
    view = record.ring
    facts: dict[str, Any] = {
        "epoch": view.epoch,
        "members": list(view.members),
        "in_sync": [name for name in view.members if name in view.in_sync],
        "joining": [name for name in view.members if name in view.joining],
        "waits_for": list(record.waits_for),
        "untrusted": untrusted(broker.metadata.state, record),
        "lag": {},
        "sync": {},
        "lacks": {},
    }
    replica = broker.replica_manager.replicas.get(record.queue_id)
    if replica is not None and replica.service is not None:
        ring = replica.ring
        for name in view.members[1:]:
            report = ring.reports.get(name)
            facts["lag"][name] = ring.received - report.received if report is not None else None
        for name, session in replica.service.sessions.items():
            if name not in view.in_sync and session.sending:
                facts["sync"][name] = {"done": session.progress, "total": session.total}
            elif name not in view.in_sync:
                facts["lacks"][name] = session.total - session.progress
    return facts


def untrusted(state: MetadataState, record: records.Queue) -> list[str]:
    """Members that are not synchronised in the present incarnation of their node, which has a journal fault.

    While the queue is down, the in-sync set is that of earlier incarnations.
    """
    view, nodes = record.ring, state.nodes
    return [
        name
        for name in view.members
        if name in nodes
        and nodes[name].journal_fault
        and (name not in view.in_sync or view.incarnation_of(name) != nodes[name].incarnation)
    ]


def untrusted_copies(state: MetadataState) -> dict[str, int]:
    """Count the untrusted copies of each node; empty unless a node has a journal fault."""
    if not any(node.journal_fault for node in state.nodes.values()):
        return {}
    return dict(Counter(name for record in state.queues.values() for name in untrusted(state, record)))


def delivered_before(broker: ReplicationHost, record: records.Queue) -> int | None:
    """Return how many delivered messages the master's copy still holds: a new master delivers them again.
    None if this node is not the master of a ring."""
    replica = broker.replica_manager.replicas.get(record.queue_id)
    vhost = broker.vhosts.get(record.vhost)
    queue = vhost.local_queue(record.name) if vhost is not None else None
    if replica is None or replica.backing is None or queue is None:
        return None
    delivered_up_to = max(queue.marks.delivered_up_to, replica.backing.delivered_up_to)
    held = replica.backing.held().spans()
    return sum(min(size, delivered_up_to - first + 1) for first, size in held if first <= delivered_up_to)


def synchronising(broker: ReplicationHost, record: records.Queue) -> int | None:
    """Return the progress of the slowest mirror in synchronisation, in messages; None if there is none.
    RabbitMQ shows the state {syncing, N} meanwhile."""
    replica = broker.replica_manager.replicas.get(record.queue_id)
    if replica is None or replica.service is None:
        return None
    progress = [
        session.progress
        for session in replica.service.sessions.values()
        if session.sending and not session.done
    ]
    return min(progress, default=None)
