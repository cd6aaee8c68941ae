"""Log entries about nodes, rings, policies, vhosts and users, from metadata changes.

The old or new master logs changes of a ring, and every node logs changes of nodes. The node that wrote a
command logs everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrormq.events import journal_log
from mirrormq.events.event_host import EventHost
from mirrormq.events.log_buffer import CONNECTION, DEFAULT, MIRRORING, QUEUE
from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.commands import BeginBatch, DeleteUser
from mirrormq.metadata.store import WriteResult


def observe(broker: EventHost, written: WriteResult) -> None:
    """Log the changes of a command on the node that wrote it."""
    if written.here:
        if isinstance(written.command, BeginBatch):
            _forgotten(broker, written.command, written.changes)
        ends = isinstance(written.command, DeleteUser)
        for change in written.changes:
            record = change.record
            orders = _removed(record, ends) if isinstance(change, Deleted) else _put(record, change.before)
            for category, text in orders:
                broker.log_entries.add("info", category, text, actor=written.actor)


def _forgotten(broker: EventHost, command: BeginBatch, changes: Sequence[Change]) -> None:
    """Log that producers made room for the one of the command."""
    count = sum(isinstance(change, Deleted) for change in changes)
    if count:
        text = (
            f"vhost '{command.record.vhost}': forgot {count} producers that were idle for a week or whose"
            f" writes are complete, to make room for '{command.record.name}'"
        )
        broker.log_entries.add("info", DEFAULT, text, vhost=command.record.vhost)


def _put(record: records.Record, before: records.Record | None) -> Iterator[tuple[str, str]]:
    match record:
        case records.Policy() | records.OperatorPolicy():
            what = "policy" if isinstance(record, records.Policy) else "operator policy"
            place = f"in virtual host '{record.vhost}' using pattern '{record.pattern}'"
            yield DEFAULT, f"Successfully set {what} '{record.name}' matching {record.apply_to} names {place}"
        case records.Vhost() if before is None:
            facts = f"description: '{record.description}', tags: [{','.join(record.tags)}]"
            yield DEFAULT, f"Adding vhost '{record.name}' ({facts})"
        case records.User() if before is None:
            yield DEFAULT, f"Created user '{record.name}'"
        case records.Permission():
            rights = f"'{record.configure}', '{record.write}', '{record.read}'"
            place = f"in virtual host '{record.vhost}' to {rights}"
            yield DEFAULT, f"Successfully set permissions for '{record.user}' {place}"


def _removed(record: records.Record, with_its_user: bool) -> Iterator[tuple[str, str]]:
    match record:
        case records.Vhost():
            yield DEFAULT, f"Deleting vhost '{record.name}'"
            yield CONNECTION, f"Closing all connections in vhost '{record.name}' because it's being deleted"
        case records.User():
            yield DEFAULT, f"Deleted user '{record.name}'"
            yield CONNECTION, f"Closing all connections from user '{record.name}' because it's being deleted"
        case records.Permission() if not with_its_user:
            place = f"in virtual host '{record.vhost}'"
            yield DEFAULT, f"Successfully cleared permissions for '{record.user}' {place}"


def follow(broker: EventHost, change: Change) -> None:
    """Log a change of a ring or a node."""
    record = change.record
    before = None if isinstance(change, Deleted) else change.before
    if isinstance(record, records.Queue) and isinstance(before, records.Queue):
        if record.ring.version != before.ring.version or record.waits_for != before.waits_for:
            _ring(broker, record, before)
    elif isinstance(record, records.Node) and not isinstance(change, Deleted):
        _node(broker, record, before if isinstance(before, records.Node) else None)


def _ring(broker: EventHost, record: records.Queue, before: records.Queue) -> None:
    me, view, old = broker.settings.name, record.ring, before.ring
    who = f"queue '{record.name}' in vhost '{record.vhost}'"
    facts = {"vhost": record.vhost, "queue": record.name, "epoch": view.epoch}
    if record.waits_for and not before.waits_for and me in (*view.members, *old.members):
        text = f"{who} is down: it waits for {', '.join(record.waits_for)}"
        broker.log_entries.add("warning", QUEUE, text, **facts)
    elif view.master == me:
        for level, text in _ring_changes(broker, record, before):
            broker.log_entries.add(level, MIRRORING, f"Mirrored {who}: {text}", **facts)
        lost = list(journal_log.lost_copies(broker, record, before))
        for text in lost:
            broker.log_entries.add("warning", MIRRORING, f"Mirrored {who}: {text}", **facts)
        broker.events.promotions_incomplete += bool(lost)


def _ring_changes(
    broker: EventHost, record: records.Queue, before: records.Queue
) -> Iterator[tuple[str, str]]:
    view, old = record.ring, before.ring
    pid = broker.pids.of_replica
    moved, here = view.master != old.master, pid(record, view.master)
    for name in old.members:
        if name not in view.members:
            which = "Secondary" if moved else "Primary"
            yield "info", f"{which} replica of queue {here} detected replica {pid(record, name)} to be down"
    if moved:
        yield "info", f"Promoting mirror {here} to leader"
        if view.master not in old.in_sync and not any(former.node == view.master for former in before.former):
            yield "warning", "the new leader was not synchronised: messages are lost"
    for name in view.members:
        if name not in old.members:
            yield "info", f"Adding mirror on node {name}: {pid(record, name)}"
        elif name in view.in_sync and name not in old.in_sync:
            yield "info", f"Synchronising: {name} has all messages"
        elif name in old.in_sync and name not in view.in_sync:
            yield "warning", f"the mirror on node {name} is no longer synchronised"


def _node(broker: EventHost, record: records.Node, before: records.Node | None) -> None:
    journal_log.follow_node(broker, record, before)
    if record.name == broker.settings.name:
        return
    was_running = before is not None and before.running
    if record.running and not was_running:
        broker.log_entries.add("info", DEFAULT, f"rabbit on node {record.name} up", peer=record.name)
    elif was_running and not record.running:
        facts = {"peer": record.name, "in_good_order": record.shutdown}
        broker.log_entries.add("info", DEFAULT, f"rabbit on node {record.name} down", **facts)
    if record.maintenance and before is not None and not before.maintenance:
        broker.log_entries.add("info", DEFAULT, f"node {record.name} is in maintenance", peer=record.name)
