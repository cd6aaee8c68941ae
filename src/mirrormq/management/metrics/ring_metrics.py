"""Metrics without a RabbitMQ counterpart: rings, mirror lag, failovers, orphans, the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrormq.management.metrics.exposition import Exposition, labels
from mirrormq.metadata.ring_commands import DAMAGED, OUTDATED, REPLACED
from mirrormq.replication.ring_status import ring_facts

if TYPE_CHECKING:
    from mirrormq.management.managed_node import ManagedNode

SLICE_RINGS = 200
"""Rings reported between two turns of the loop: about a millisecond."""


async def of_rings(node: ManagedNode, exposition: Exposition, per_object: bool) -> None:
    """Add the metrics of the cluster and of the rings that this node is master of."""
    _cluster(node, exposition)
    me = node.settings.name
    records = [r for r in node.metadata.state.queues.values() if me in (r.ring.master, *r.waits_for)]
    mastered = [r for r in records if r.ring.master == me and len(r.ring.members) > 1 and not r.waits_for]
    exposition.add("mirrormq_rings", len(mastered))
    exposition.add("mirrormq_queues_down", sum([me in record.waits_for for record in records]))
    members = in_sync = epochs = lag_most = behind = distrusted = 0
    for start in range(0, len(mastered), SLICE_RINGS):
        for record in mastered[start : start + SLICE_RINGS]:
            facts, which = ring_facts(node.broker, record), labels(vhost=record.vhost, queue=record.name)
            lag = max([lag for lag in facts["lag"].values() if lag is not None], default=0)
            whole = len(facts["in_sync"]) == len(facts["members"])
            members, in_sync = members + len(facts["members"]), in_sync + len(facts["in_sync"])
            epochs, lag_most, behind = epochs + facts["epoch"], max(lag_most, lag), behind + (not whole)
            distrusted += len(facts["untrusted"])
            if per_object:
                exposition.add("mirrormq_ring_members", len(facts["members"]), which)
                exposition.add("mirrormq_ring_in_sync_members", len(facts["in_sync"]), which)
                exposition.add("mirrormq_ring_epoch", facts["epoch"], which)
                exposition.add("mirrormq_ring_lag_messages", lag, which)
        await asyncio.sleep(0)
    exposition.add("mirrormq_queues_unsynchronised", behind)
    exposition.add("mirrormq_queue_copies_untrusted", distrusted)
    exposition.add("mirrormq_ring_epochs", epochs)
    if not per_object:
        exposition.add("mirrormq_ring_members", members)
        exposition.add("mirrormq_ring_in_sync_members", in_sync)
        exposition.add("mirrormq_ring_lag_messages", lag_most)


def _cluster(node: ManagedNode, exposition: Exposition) -> None:
    cluster = node.cluster
    exposition.add("mirrormq_cluster_nodes", len(cluster.members))
    exposition.add("mirrormq_cluster_nodes_running", len(cluster.running))
    exposition.add("mirrormq_cluster_partitions", len(cluster.partitions.get(node.settings.name, [])))
    exposition.add("mirrormq_failovers_total", node.timeline.failovers)
    exposition.add("mirrormq_promotions_incomplete_total", node.broker.events.promotions_incomplete)
    own = node.metadata.state.nodes.get(node.settings.name)
    for fault in (DAMAGED, OUTDATED, REPLACED):
        found = own is not None and own.journal_fault == fault
        exposition.add("mirrormq_journal_fault", found, labels(reason=fault))
    kept = node.live.orphans.kept
    exposition.add("mirrormq_orphan_queues", len({title.queue.key for title in kept.titles.values()}))
    exposition.add("mirrormq_orphan_messages", sum([kept.count(number) for number in kept.titles]))
