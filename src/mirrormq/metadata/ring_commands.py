"""Commands about nodes and rings: their effect on the metadata state.

Six rules apply:

1.  An incarnation of a node ends once. A command of an earlier incarnation than the known one changes
    nothing, and a late command does not revive an incarnation that was declared over.
2.  A declared queue takes the present incarnations of its members' nodes; from then on only the successor of
    a view replaces it.
3.  A queue is deleted with a node only if no other node holds it.
4.  Only `report_journal` changes what is known of a node's journal. A journal of another identity, of a
    generation that was reported before, or with damage marks every copy of earlier incarnations as untrusted.
5.  A member that leaves the in-sync set keeps its copy on disk, and the queue's record keeps its name: the
    disks of the members that are left may turn out to be damaged or older. A living mirror that is taken out
    of the ring because no policy wants it gives its copy up.
6.  If a copy is promoted while others may hold messages that it lacks, the record says up to where it goes
    (`Rescue`). Every other node publishes what it holds above that again, as orphans.
7.  A queue's record has the indexes of the log entries that decided it (`LogIndexes`), from the moment when
    every member of the cluster records them. A member that was restored from the snapshot of an older one
    may not know that moment. So `begin_log_indexes` gives all queues the index of its own entry, also those
    that have indexes: only then do all members have the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.metadata.command_versions import knows_log_indexes
from mirrormq.metadata.copy_records import CopyReport, FormerMember, Rescue
from mirrormq.metadata.log_indexes import UNKNOWN, LogIndexes, decided_at
from mirrormq.metadata.records import Node, Queue
from mirrormq.metadata.ring_view import View

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState

REPLACED = "replaced"
"""Journal fault: the journal has another identity than before. It was removed, or is another node's."""
OUTDATED = "outdated"
"""Journal fault: the generation was reported before. An older copy of the data directory was put in place."""
DAMAGED = "damaged"
"""Journal fault: recovery found damage in the middle of the journal, or a segment is missing."""


def new_queue(state: MetadataState, queue: Queue) -> Queue:
    """Return a declared queue in a ring with the present incarnations of its members' nodes."""
    ring = queue.ring
    incarnations = {name: state.nodes[name].incarnation for name in ring.members if name in state.nodes}
    indexes = decided_at(state.log_index) if knows_log_indexes(state) else LogIndexes()
    view = ring.with_incarnations(incarnations) if incarnations else queue.view
    return msgspec.structs.replace(queue, view=view, indexes=indexes)


def put_node(state: MetadataState, command: c.PutNode) -> None:
    """Apply that a node joins, starts, stops or is lost."""
    record = command.record
    before = state.nodes.get(record.name)
    if before is not None:
        if record.incarnation < before.incarnation:
            return
        if record.incarnation == before.incarnation and record.running and not before.running:
            return
        if record.incarnation == before.incarnation and record.start != before.start:
            return  # claimed by a process that did not know of the one that had it
        record = msgspec.structs.replace(
            record,
            journal=before.journal,
            generation=before.generation,
            intact_since=before.intact_since,
            sound_since=before.sound_since,
            whole_since=before.whole_since,
            journal_fault=before.journal_fault if record.incarnation == before.incarnation else "",
        )
    state.store(record)


def begin_log_indexes(state: MetadataState, command: c.BeginLogIndexes) -> None:
    """Let this entry decide the state of every queue. Later indexes than the true ones set too many messages
    aside after a fork, and never too few."""
    if knows_log_indexes(state):
        for queue in list(state.queues.values()):
            state.store(msgspec.structs.replace(queue, indexes=decided_at(state.log_index)))


def report_journal(state: MetadataState, command: c.ReportJournal) -> None:
    """Compare a node's journal with what the node reported before."""
    before = state.nodes.get(command.node)
    if before is None or before.incarnation != command.incarnation:
        return
    fault = DAMAGED if command.damaged else ""
    if before.journal and before.journal != command.journal:
        fault = REPLACED
    elif command.generation <= before.generation or before.intact_since == before.incarnation:
        fault = OUTDATED  # by its generation, or a peer has said so (`report_outdated`)
    lost = bool(fault) and (fault != DAMAGED or command.proven)
    incomplete = fault == REPLACED or (lost and command.damaged)
    state.store(
        msgspec.structs.replace(
            before,
            journal=command.journal,
            generation=max(command.generation, before.generation)
            if fault != REPLACED
            else command.generation,
            intact_since=before.incarnation if lost else before.intact_since,
            sound_since=before.incarnation if fault else before.sound_since,
            whole_since=before.incarnation if incomplete else before.whole_since,
            journal_fault=fault,
        )
    )


def report_outdated(state: MetadataState, command: c.ReportOutdated) -> None:
    """Distrust the copies that a node's disk had before the process `start` began on it."""
    before = state.nodes.get(command.node)
    if before is None:
        return
    claimed = before.start == command.start
    since = before.incarnation if claimed else before.incarnation + 1
    if since > before.intact_since:
        fault = (before.journal_fault or OUTDATED) if claimed else before.journal_fault
        state.store(
            msgspec.structs.replace(
                before,
                intact_since=since,
                sound_since=max(since, before.sound_since),
                journal_fault=fault,
            )
        )


def report_copies(state: MetadataState, command: c.ReportCopies) -> None:
    """Keep the durable positions of members and former members while their queue is down."""
    for queue_id, report in command.copies:
        key = state.queue_keys.get(queue_id)
        queue = None if key is None else state.queues[key]
        if queue is not None and queue.waits_for and queue.has_copy(report.node):
            others = tuple(copy for copy in queue.copies if copy.node != report.node)
            state.store(msgspec.structs.replace(queue, copies=(*others, report)))


def release_copies(state: MetadataState, command: c.ReleaseCopies) -> None:
    """Release copies of former members, if every member of the ring is still synchronised."""
    for queue_id, name, incarnation in command.copies:
        key = state.queue_keys.get(queue_id)
        queue = None if key is None else state.queues[key]
        if queue is not None and not queue.waits_for and queue.ring.in_sync.issuperset(queue.ring.members):
            left = tuple(
                former for former in queue.former if (former.node, former.incarnation) != (name, incarnation)
            )
            if left != queue.former:
                state.store(msgspec.structs.replace(queue, former=left))


def delete_node(state: MetadataState, command: c.DeleteNode) -> None:
    """Remove a node from the cluster. A later node of that name is another one, and has no copies."""
    if node := state.nodes.get(command.name):
        state.remove(node)
    for queue in [queue for queue in state.queues.values() if queue.former]:
        left = tuple(former for former in queue.former if former.node != command.name)
        if left != queue.former:
            state.store(msgspec.structs.replace(queue, former=left))


def change_views(state: MetadataState, command: c.ChangeViews) -> None:
    """Adopt new views, each only as the successor of the view that it was derived from."""
    for change in command.changes:
        key = state.queue_keys.get(change.queue_id)
        queue = None if key is None else state.queues[key]
        if queue is not None and change.view.version == queue.ring.version + 1:
            state.store(
                msgspec.structs.replace(
                    queue,
                    node=change.view.master,
                    view=change.view,
                    waits_for=change.waits_for,
                    copies=queue.copies if change.waits_for else (),
                    former=_former(state, queue, change.view),
                    rescue=_rescue(state, queue, change),
                    indexes=_indexes(state, queue, change.view),
                )
            )


def _indexes(state: MetadataState, queue: Queue, after: View) -> LogIndexes:
    """Return the log indexes of a queue with its next view."""
    before, indexes, now = queue.ring, queue.indexes, state.log_index
    if indexes.view == UNKNOWN or not knows_log_indexes(state):
        return LogIndexes()
    if after.epoch == before.epoch:
        return msgspec.structs.replace(indexes, view=now)
    master, incarnation = after.master, before.incarnation_of(after.master)
    # A copy from a disk has what was synced, and its node may have discarded it as the loser of a fork.
    went_on = bool(incarnation) and incarnation == after.incarnation_of(master)
    complete = went_on and master in before.in_sync
    return msgspec.structs.replace(indexes, view=now, epoch=now, gap=indexes.gap if complete else now)


def _former(state: MetadataState, queue: Queue, after: View) -> tuple[FormerMember, ...]:
    """Return the former members beside the next view of a queue."""
    before = queue.ring
    if not queue.survives_restart or (not queue.former and before.in_sync <= after.in_sync):
        return ()
    known = {former.node: former for former in queue.former}
    for name in before.in_sync - after.in_sync:
        known[name] = FormerMember(name, before.incarnation_of(name), after.version)
    return tuple(
        known[name]
        for name in sorted(known)
        if name not in after.in_sync
        and name in state.nodes
        and not _is_dismissed(state.nodes[name], before, after)
    )


def _is_dismissed(node: Node, before: View, after: View) -> bool:
    """Return whether a living member is taken out of the ring because it is no longer wanted."""
    alive = node.running and node.incarnation == before.incarnation_of(node.name)
    return alive and node.name in before.members and node.name not in after.members


def _rescue(state: MetadataState, queue: Queue, change: c.ViewChange) -> Rescue | None:
    """Return the rescue record of a promotion after which other disks may hold messages that the new master
    lacks: its copy is not trusted, it was not in sync, or a member that was in sync has not reported."""
    before, after = queue.ring, change.view
    if not queue.waits_for or change.waits_for or after.epoch == before.epoch:
        return queue.rescue
    reports = {copy.node: copy for copy in queue.copies if _is_current(state, copy)}
    promoted = reports.get(after.master)
    if promoted is None:
        return queue.rescue
    node, joined = state.nodes[after.master], before.incarnation_of(after.master)
    synchronised = after.master in before.in_sync
    if synchronised and before.in_sync <= reports.keys() and not node.has_lost_copy(joined):
        return queue.rescue
    incomplete = not synchronised or node.has_incomplete_copy(joined)
    return Rescue(after.epoch, promoted.highest_sequence, after.version if incomplete else 0)


def _is_current(state: MetadataState, copy: CopyReport) -> bool:
    node = state.nodes.get(copy.node)
    return node is not None and node.incarnation == copy.incarnation


def note_consumer(state: MetadataState, command: c.NoteConsumer) -> None:
    """Record that an auto-delete queue has had a consumer."""
    key = state.queue_keys.get(command.queue_id)
    if key is not None and not state.queues[key].consumed:
        state.store(msgspec.structs.replace(state.queues[key], consumed=True))


def delete_queues(state: MetadataState, command: c.DeleteQueues) -> None:
    """Delete queues that were lost with the nodes that held them."""
    for queue_id in command.queue_ids:
        key = state.queue_keys.get(queue_id)
        if key is not None:
            state.remove_queue(state.queues[key])


def drop_transient(state: MetadataState, command: c.DropTransient) -> None:
    """Delete queues that do not survive a restart: of one node those that it alone held, or all."""
    everything = command.node is None or (command.over is not None and not _others_run(state, command))
    passing = [queue for queue in state.queues.values() if not queue.survives_restart]
    if not everything:
        for queue in passing:
            if queue.ring.members == (command.node,):
                state.remove_queue(queue)
        return
    for queue in passing:
        _fade(state, queue)
    for exchange in [found for found in state.exchanges.values() if not found.durable]:
        to_it = state.bindings_to(exchange.vhost, "exchange", exchange.name)
        from_it = state.bindings_from(exchange.vhost, exchange.name)
        for binding in [*to_it.values(), *from_it.values()]:
            state.remove(binding)
        state.remove(exchange)


def _others_run(state: MetadataState, command: c.DropTransient) -> bool:
    over = dict(command.over or ())
    others = [node for node in state.nodes.values() if node.name != command.node]
    return any(node.running and node.incarnation > over.get(node.name, -1) for node in others)


def _fade(state: MetadataState, queue: Queue) -> None:
    """Delete a queue without auto-deleting exchanges: after a full restart an exchange whose last queue this
    was stays, unbound."""
    for binding in list(state.bindings_to(queue.vhost, "queue", queue.name).values()):
        state.remove(binding)
    state.remove(queue)
