"""Who died, who was promoted, how long the gap was: what happened to nodes and rings, as this node saw it.

It is read off the metadata as it changes, so every node keeps the same story, each by its own clock and from
the time on that it was there. `GET /api/mirrormq/timeline` puts the stories of all nodes together. What only
a new master knows (how many messages it will deliver again) it tells the others, so that it is still known
when that one dies too; and each node keeps its story on disk (`runtime/timeline_file.py`), for the day on
which all of them are restarted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted

EVENTS_MAX = {"nodes": 500, "masters": 1_000, "mirrors": 1_000}
"""Kept of each sort; a node that dies every minute is remembered for four hours. The sorts are kept apart:
ten thousand queues that lose their master must not push out why, nor mirrors that catch up who was
promoted."""

FRESH_MAX = sum(EVENTS_MAX.values())
"""Not written down yet; more than that is not kept anyway."""

SORTS = {"promoted": "masters", "synchronised": "mirrors", "left_in_sync": "mirrors"}
"""Which sort a kind is of; all others are of nodes."""

NUMBER = "number"
"""Which change it was: two nodes that tell of the same one are not two events."""

SHOWN = ("at_ms", "kind", "node", "queue", "vhost", "gap_ms", "redelivered", "text")
TOLD_LATER = ("gap_ms", "redelivered")
"""What one node may know of an event and another not, or not so well: the larger number is told."""

Event = dict[str, Any]
Key = tuple[Any, ...]


def _now_ms() -> int:
    return int(time.time() * 1000)


def _key(event: Event) -> Key:
    return tuple([event.get(name) for name in ("kind", "node", "vhost", "queue", NUMBER)])


def _when(event: Event) -> int:
    return int(event["at_ms"])


def _learn(known: Event, event: Event) -> bool:
    """Take over what another one knows of the same event; was there anything?"""
    before = dict(known)
    known["at_ms"] = min(known["at_ms"], event["at_ms"])
    for name in TOLD_LATER:
        known[name] = max([each[name] for each in (known, event) if each.get(name) is not None], default=None)
    return known != before


class FailoverTimeline:
    """One node's story; outlives the lives of its application."""

    def __init__(self, me: str, now_ms: Callable[[], int] = _now_ms) -> None:
        self._me = me
        self._now_ms = now_ms
        self._kept: dict[str, dict[Key, Event]] = {sort: {} for sort in EVENTS_MAX}
        self._fresh: dict[Key, Event] = {}
        self._lost_ms: dict[str, int] = {}
        """When nodes that are gone were last heard of, or given up."""
        self._apart: set[str] = set()
        self._seen_apart: set[str] = set()
        self.failovers = 0
        """Promotions because a master was lost, since the process started."""
        self.redelivers: Callable[[records.Queue], int | None] = lambda record: None
        """How many messages this node will deliver again as a new master."""

    @property
    def events(self) -> list[Event]:
        """Everything, the newest last."""
        return sorted([event for kept in self._kept.values() for event in kept.values()], key=_when)

    def take_fresh(self) -> list[Event]:
        """What is new or is better known since this was last asked."""
        fresh, self._fresh = self._fresh, {}
        return list(fresh.values())

    def hear(self, events: Iterable[Event]) -> None:
        """What another node, or this one in an earlier life, wrote down."""
        for event in events:
            self._put(event)

    def clear(self) -> None:
        """The node leaves its cluster: what happened there is no concern of the next one."""
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
        for some, most in ((kept, EVENTS_MAX[sort]), (self._fresh, FRESH_MAX)):
            if len(some) > most:
                del some[next(iter(some))]

    # -- what happens ---------------------------------------------------------------------------

    def link_down(self, peer: str, silent_ms: int = 0) -> None:
        """Nothing is heard of a node any more, for so long already."""
        self._lost_ms.setdefault(peer, self._now_ms() - silent_ms)

    def link_up(self, peer: str) -> None:
        """It is there again."""
        self._lost_ms.pop(peer, None)

    def partitions(self, apart: Iterable[str]) -> None:
        """These are the nodes that this one is partitioned from, now. A node that dies looks like one for a
        moment, as long as not all have noticed: what is seen once does not count."""
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

    def follow(self, change: Change) -> None:
        """The metadata has changed."""
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
        gap_ms = None if lost_ms is None else max(0, self._now_ms() - lost_ms)
        self.failovers += lost_ms is not None
        again = self.redelivers(record) if record.ring.master == self._me else None
        self._of_queue("promoted", record, record.ring.master, text, gap_ms=gap_ms, redelivered=again)

    def _of_queue(self, kind: str, record: records.Queue, node: str, text: str, **more: Any) -> None:
        event = self._event(kind, node, text, f"{record.queue_id} {record.ring.version}")
        self._put({**event, "queue": record.name, "vhost": record.vhost, **more})

    def _event(self, kind: str, node: str, text: str, number: str) -> Event:
        return {
            **dict.fromkeys(SHOWN), "at_ms": self._now_ms(), "kind": kind, "node": node, "text": text,
            NUMBER: number,
        }  # fmt: skip


def joined(stories: Iterable[list[Event]]) -> list[Event]:
    """The stories of several nodes as one: each event once, as it was seen first."""
    found: dict[Key, Event] = {}
    for story in stories:
        for event in story:
            _learn(found.setdefault(_key(event), {name: event.get(name) for name in SHOWN}), event)
    return sorted(found.values(), key=_when)
