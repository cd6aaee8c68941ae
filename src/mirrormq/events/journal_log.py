"""Log entries about journal faults, and about promotions that may have lost messages."""

from __future__ import annotations

from collections.abc import Iterator

from mirrormq.events.event_host import EventHost
from mirrormq.events.log_buffer import DEFAULT
from mirrormq.metadata import records
from mirrormq.metadata.ring_commands import DAMAGED, OUTDATED, REPLACED

FOUND = {
    REPLACED: "was replaced",
    OUTDATED: "is an older copy",
    DAMAGED: "is damaged",
}
CONSEQUENCE = "joins its rings unsynchronised and catches up from the members that hold more"


def follow_node(broker: EventHost, record: records.Node, before: records.Node | None) -> None:
    """Log the journal fault that a node has reported."""
    if not record.journal_fault or (before is not None and before.journal_fault == record.journal_fault):
        return
    if record.name == broker.settings.name:
        fault, description = record.journal_fault, FOUND[record.journal_fault]
        detail = _detail(broker, fault, before)
        text = f"the journal of this node {description}: {detail}. This node {CONSEQUENCE}"
        broker.log_entries.add("error", DEFAULT, text, fault=fault)
    else:
        _log_peer(broker, record)


def log_known_faults(broker: EventHost) -> None:
    """Log faults that other nodes reported before this node began to serve."""
    for node in broker.metadata.state.nodes.values():
        if node.running and node.journal_fault and node.name != broker.settings.name:
            _log_peer(broker, node)


def _log_peer(broker: EventHost, node: records.Node) -> None:
    text = f"the journal of node {node.name} {FOUND[node.journal_fault]}: that node {CONSEQUENCE}"
    broker.log_entries.add("warning", DEFAULT, text, peer=node.name, fault=node.journal_fault)


def _detail(broker: EventHost, fault: str, before: records.Node | None) -> str:
    journal = broker.journal
    known_identity, known_generation = (before.journal, before.generation) if before is not None else ("", 0)
    if fault == REPLACED:
        return (
            f"the data directory has journal {journal.identity} (generation {journal.generation}), "
            f"the cluster knows journal {known_identity} (generation {known_generation})"
        )
    if fault == OUTDATED:
        return (
            f"the data directory has generation {journal.generation} of journal {journal.identity}, "
            f"the cluster knows generation {known_generation}"
        )
    lost = [dropped for dropped in journal.report.dropped if dropped.damage]
    if not lost:
        return "an earlier start found damage that the cluster did not know of yet"
    size = sum(dropped.length for dropped in lost)
    return f"recovery dropped {size} bytes in {len(lost)} place(s), the first one in {lost[0].path}"


def lost_copies(broker: EventHost, record: records.Queue, before: records.Queue) -> Iterator[str]:
    """Return texts about the copies that a promotion of this node after a full stop did without."""
    old, master = before.ring, record.ring.master
    if not before.waits_for or record.waits_for or record.ring.epoch == old.epoch:
        return
    nodes = broker.metadata.state.nodes
    reported = {
        copy.node
        for copy in before.copies
        if copy.node in nodes and nodes[copy.node].incarnation == copy.incarnation
    }
    given_up = [name for name in before.waits_for if name not in reported and name != master]
    if given_up:
        yield (
            f"node {master} is promoted without the copies of {', '.join(given_up)}, "
            "which have not reported: messages that only they hold are lost"
        )
    incarnations = {former.node: former.incarnation for former in before.former}
    if master in incarnations and master not in old.in_sync:
        yield (
            f"node {master}, which was synchronised until it left the in-sync set, is promoted: no copy of "
            f"{', '.join(sorted(old.in_sync))} is trusted. Messages confirmed since that are not readable "
            "there are lost"
        )
    joined = incarnations[master] if master in incarnations else old.incarnation_of(master)
    if master in nodes and nodes[master].has_lost_copy(joined):
        fault = nodes[master].journal_fault or "an earlier fault"
        yield (
            f"no member has a trusted copy: node {master} is promoted with a copy that it may have lost "
            f"messages of (journal fault: {fault}). Messages may be lost"
        )
