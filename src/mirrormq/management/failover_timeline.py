"""Failover timeline: events of nodes and rings as this node observed them, with promotions and outage times.

Events derive from metadata changes, so every node records the same events, each with its own clock and
from its own start on. `GET /api/mirrormq/timeline` merges the timelines of all nodes. A new master sends
facts that only it knows (the number of messages it redelivers) to the other nodes, so that they survive
its failure. Each node stores its timeline on disk (`runtime/timeline_file.py`), so that it survives a
restart of all nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted

EVENTS_MAX = {"nodes": 500, "masters": 1_000, "mirrors": 1_000}
"""Events kept per category; a node that fails every minute is remembered for four hours. The categories
are separate, so that ten thousand queues that lose their master do not displace the node events that
explain it, and mirrors that catch up do not displace promotions."""

FRESH_MAX = sum(EVENTS_MAX.values())
"""Largest number of unwritten events; older ones are not kept in memory either."""

SORTS = {"promoted": "masters", "synchronised": "mirrors", "left_in_sync": "mirrors"}
"""Category of an event kind; all other kinds belong to nodes."""

NUMBER = "number"
"""Identifier of the change: reports of one change by two nodes are one event."""

SHOWN = ("at_ms", "kind", "node", "queue", "vhost", "gap_ms", "redelivered", "text")
MERGED_FIELDS = ("gap_ms", "redelivered")
"""Fields that one node may know better than another; the larger value wins."""

Event = dict[str, Any]
Key = tuple[Any, ...]


def _now_ms() -> int:
    return int(time.time() * 1000)


def _key(event: Event) -> Key:
    return tuple([event.get(name) for name in ("kind", "node", "vhost", "queue", NUMBER)])


def _when(event: Event) -> int:
    return int(event["at_ms"])


def _learn(known: Event, event: Event) -> bool:
    """Merge another node's knowledge of the same event into `known`; return whether anything changed."""
    before = dict(known)
    known["at_ms"] = min(known["at_ms"], event["at_ms"])
    for name in MERGED_FIELDS:
        known[name] = max(
            [source[name] for source in (known, event) if source.get(name) is not None], default=None
        )
    return known != before


class FailoverTimeline:
    """Timeline of one node; it outlasts the incarnations of its application."""

    def __init__(self, me: str, now_ms: Callable[[], int] = _now_ms) -> None:
        self._me = me
        self._now_ms = now_ms
        self._kept: dict[str, dict[Key, Event]] = {sort: {} for sort in EVENTS_MAX}
        self._fresh: dict[Key, Event] = {}
        self._lost_ms: dict[str, int] = {}
        """Time when each unreachable node was last heard from or declared down."""
        self._apart: set[str] = set()
        self._seen_apart: set[str] = set()
        self.failovers = 0
        """Promotions after the loss of a master, since the process started."""
        self.redelivers: Callable[[records.Queue], int | None] = lambda record: None
        """Function that returns the number of messages this node redelivers as new master."""

    @property
    def events(self) -> list[Event]:
        """All events, the newest last."""
        return sorted([event for kept in self._kept.values() for event in kept.values()], key=_when)

    def take_fresh(self) -> list[Event]:
        """Return and clear the events that are new or changed since the last call."""
        fresh, self._fresh = self._fresh, {}
        return list(fresh.values())

    def merge(self, events: Iterable[Event]) -> None:
        """Merge events recorded by another node, or by an earlier incarnation of this one."""
        for event in events:
            self._put(event)

    def clear(self) -> None:
        """Discard all events: a node that leaves its cluster must not report them to the next one."""
        for kept in self._kept.values():
            kept.clear()
        self._fresh.clear()
        self._lost_ms.clear()

    def _put(self, event: Event) -> None:
        sort = SORTS.get(event["kind"], "nodes")
        kept, key = self._kept[sort], _key(event)
        known = kept.get(key)
        if known is not None and not _learn(known, event):
            return
        kept[key] = self._fresh[key] = event if known is None else known
        for events, events_max in ((kept, EVENTS_MAX[sort]), (self._fresh, FRESH_MAX)):
            if len(events) > events_max:
                # Dictionaries keep insertion order: the first key is the oldest event.
                del events[next(iter(events))]

    # -- input ----------------------------------------------------------------------------------

    def link_down(self, peer: str, silent_ms: int = 0) -> None:
        """Record that the link to a peer is down, after `silent_ms` of silence."""
        self._lost_ms.setdefault(peer, self._now_ms() - silent_ms)

    def link_up(self, peer: str) -> None:
        """Record that the link to a peer is up."""
        self._lost_ms.pop(peer, None)

    def partitions(self, apart: Iterable[str]) -> None:
        """Record the nodes from which this one is partitioned. A failing node looks like a partitioned one
        until all nodes have noticed, so a single observation does not count."""
        seen = set(apart)
        now = seen & (self._apart | self._seen_apart)
        self._seen_apart = seen
        for kind, text, names in (
            ("partition", "partitioned from {}", now - self._apart),
            ("healed", "together with {} again", self._apart - now),
        ):
            for name in sorted(names):
                self._put(self._event(kind, self._me, text.format(name), f"{name} {self._now_ms()}"))
        self._apart = now

    def note_running(self, record: records.Node) -> None:
        """Record the start of a node that the metadata know as running before this timeline follows them.
        Otherwise the node would seem to be down since its last stop."""
        known = [
            event
            for event in self._kept["nodes"].values()
            if event["node"] == record.name and event["kind"] in ("node_up", "node_down")
        ]
        last = max(known, key=_when, default=None)
        if not record.running or last is None or last["kind"] != "node_down":
            return
        # The record may be older than the stop that the timeline knows.
        if last.get(NUMBER) != str(record.incarnation):
            self._put(self._event("node_up", record.name, "", str(record.incarnation)))

    def follow(self, change: Change) -> None:
        """Record the events that follow from a metadata change."""
        if isinstance(change, Deleted):
            return
        record, before = change.record, change.before
        if isinstance(record, records.Node):
            self._follow_node(record, before if isinstance(before, records.Node) else None)
        elif isinstance(record, records.Queue) and isinstance(before, records.Queue):
            self._follow_ring(record, before)

    def _follow_node(self, record: records.Node, before: records.Node | None) -> None:
        if record.running and (
            before is None or not before.running or record.incarnation > before.incarnation
        ):
            self._lost_ms.pop(record.name, None)
            self._put(self._event("node_up", record.name, "", str(record.incarnation)))
        elif not record.running and before is not None and before.running:
            self._lost_ms.setdefault(record.name, self._now_ms())
            text = "stopped in good order" if record.shutdown else "lost"
            self._put(self._event("node_down", record.name, text, str(record.incarnation)))

    def _follow_ring(self, record: records.Queue, before: records.Queue) -> None:
        view, old = record.ring, before.ring
        # A ring of one member has no mirrors, so nothing can fail over.
        if view.version == old.version or len({*view.members, *old.members}) < 2:
            return
        if view.master != old.master:
            self._promoted(record, old.master)
        else:
            for name in sorted(view.in_sync - old.in_sync):
                self._of_queue("synchronised", record, name, "")
        for name in sorted((old.in_sync - view.in_sync) & set(view.members)):
            self._of_queue("left_in_sync", record, name, "")

    def _promoted(self, record: records.Queue, old: str) -> None:
        lost_ms = self._lost_ms.get(old)
        text = f"in place of {old}"
        # Without a recorded loss the promotion was planned (move_master, rebalance) and caused no outage.
        gap_ms = None if lost_ms is None else max(0, self._now_ms() - lost_ms)
        self.failovers += lost_ms is not None
        redelivered = self.redelivers(record) if record.ring.master == self._me else None
        self._of_queue("promoted", record, record.ring.master, text, gap_ms=gap_ms, redelivered=redelivered)

    def _of_queue(self, kind: str, record: records.Queue, node: str, text: str, **more: Any) -> None:
        event = self._event(kind, node, text, f"{record.queue_id} {record.ring.version}")
        self._put({**event, "queue": record.name, "vhost": record.vhost, **more})

    def _event(self, kind: str, node: str, text: str, number: str) -> Event:
        return {
            **dict.fromkeys(SHOWN), "at_ms": self._now_ms(), "kind": kind, "node": node, "text": text,
            NUMBER: number,
        }  # fmt: skip


def joined(timelines: Iterable[list[Event]]) -> list[Event]:
    """Merge the timelines of several nodes: each event once, with its earliest time."""
    merged: dict[Key, Event] = {}
    for timeline in timelines:
        for event in timeline:
            _learn(merged.setdefault(_key(event), {name: event.get(name) for name in SHOWN}), event)
    return sorted(merged.values(), key=_when)
