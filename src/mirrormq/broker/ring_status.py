"""What operators see of a queue's ring: who holds it, who has everything, how far the others are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from mirrormq.metadata import records
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.mirrored_exchanges import mirrored_definition

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def is_mirrored(broker: Broker, record: records.Queue) -> bool:
    """Has it mirrors, or would it have some if there were nodes for them?"""
    if len(record.ring.members) > 1:
        return True
    definition = mirrored_definition(broker.metadata.state, broker.policies, record)
    return "ha-mode" in definition and not record.exclusive


def ring_facts(broker: Broker, record: records.Queue) -> dict[str, Any]:
    """The ring as the metadata has it. Only where this node is the master: lag, progress of mirrors that are
    being synchronised, and how many messages the others lack."""
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


def delivered_before(broker: Broker, record: records.Queue) -> int | None:
    """How many messages of a ring that this node masters have been with a consumer before and are here: a
    new master delivers them again. None if it masters no such ring."""
    replica = broker.replica_manager.replicas.get(record.queue_id)
    vhost = broker.vhosts.get(record.vhost)
    queue = vhost.local_queue(record.name) if vhost is not None else None
    if replica is None or replica.backing is None or queue is None:
        return None
    last = max(queue.delivered_up_to, replica.backing.delivered_up_to)
    held = replica.backing.held().ranges()
    return sum(min(size, last - first + 1) for first, size in held if first <= last)


def synchronising(broker: Broker, record: records.Queue) -> int | None:
    """How many messages the mirror that is furthest behind has been brought, while one is being brought
    some; RabbitMQ shows the state {syncing, N} then."""
    replica = broker.replica_manager.replicas.get(record.queue_id)
    if replica is None or replica.service is None:
        return None
    under_way = [
        session.progress
        for session in replica.service.sessions.values()
        if session.sending and not session.done
    ]
    return min(under_way, default=None)
