"""Failover timeline: recorded events, and the merged timelines of several nodes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from mirrormq.management.failover_timeline import EVENTS_MAX, FailoverTimeline, joined
from mirrormq.metadata.changes import Put
from mirrormq.metadata.records import Node, Queue
from mirrormq.metadata.ring_view import View
from mirrormq.peers.link_loss import LinkLoss, silence
from mirrormq.runtime.timeline_file import LINES_MAX, NAME, TimelineFile, read_events


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def _queue(master: str, *mirrors: str, in_sync: str, version: int, epoch: int = 1) -> Queue:
    view = View(epoch, version, (master, *mirrors), frozenset(in_sync))
    return Queue("/", "q", 1, node=master, view=view)


def _kinds(timeline: FailoverTimeline) -> list[tuple[str, str]]:
    return [(event["kind"], event["node"]) for event in timeline.events]


def _made() -> tuple[FailoverTimeline, Clock]:
    clock = Clock()
    return FailoverTimeline("b", clock), clock


def test_nodes_that_come_and_go_are_written_down() -> None:
    timeline, clock = _made()
    up, down = Node("a", incarnation=1, running=True), Node("a", incarnation=1)
    timeline.follow(Put(up, None))
    clock.now_ms += 1
    timeline.follow(Put(up, up))
    timeline.follow(Put(down, up))
    clock.now_ms += 1
    timeline.follow(Put(Node("a", incarnation=2, running=True), down))
    assert _kinds(timeline) == [("node_up", "a"), ("node_down", "a"), ("node_up", "a")]
    assert timeline.events[1]["text"] == "lost"


def test_a_node_that_started_before_the_timeline_followed_is_up() -> None:
    timeline, clock = _made()
    up, down = Node("a", incarnation=1, running=True), Node("a", incarnation=1)
    timeline.note_running(up)
    assert _kinds(timeline) == [], "a node without history has no event"
    timeline.follow(Put(down, up))
    timeline.note_running(up)
    assert _kinds(timeline) == [("node_down", "a")], "the record is older than the stop"
    clock.now_ms += 1
    again = Node("a", incarnation=2, running=True)
    timeline.note_running(again)
    timeline.note_running(again)
    timeline.follow(Put(again, down))
    assert _kinds(timeline) == [("node_down", "a"), ("node_up", "a")]


def test_a_promotion_reports_the_gap_since_the_last_sign_of_the_old_master() -> None:
    timeline, clock = _made()
    timeline.redelivers = lambda record: 7
    timeline.link_down("a")
    clock.now_ms += 40
    timeline.follow(Put(Node("a", incarnation=1), Node("a", incarnation=1, running=True)))
    clock.now_ms += 2
    before = _queue("a", "b", in_sync="ab", version=3)
    timeline.follow(Put(_queue("b", in_sync="b", version=4, epoch=2), before))
    event = timeline.events[-1]
    assert (event["kind"], event["node"], event["queue"], event["vhost"]) == ("promoted", "b", "q", "/")
    assert (event["gap_ms"], event["redelivered"], timeline.failovers) == (42, 7, 1)


def test_a_master_that_was_moved_leaves_no_gap() -> None:
    timeline, _ = _made()
    before = _queue("a", "b", in_sync="ab", version=3)
    timeline.follow(Put(_queue("b", "a", in_sync="ab", version=4, epoch=2), before))
    assert timeline.events[-1]["kind"] == "promoted"
    assert timeline.events[-1]["gap_ms"] is None and timeline.failovers == 0


def test_mirrors_that_fall_behind_and_catch_up() -> None:
    timeline, clock = _made()
    ring = [
        _queue("a", "b", in_sync="ab", version=1),
        _queue("a", "b", in_sync="a", version=2),
        _queue("a", "b", in_sync="ab", version=3),
    ]
    for before, after in pairwise(ring):
        clock.now_ms += 1
        timeline.follow(Put(after, before))
    assert _kinds(timeline) == [("left_in_sync", "b"), ("synchronised", "b")]


def test_partitions_begin_and_end_once() -> None:
    timeline, clock = _made()
    for apart in (["c"], [], ["a"], ["a"], [], []):
        timeline.partitions(apart)
        clock.now_ms += 1
    assert _kinds(timeline) == [("partition", "b"), ("healed", "b")]


def test_many_queues_do_not_push_out_the_reason() -> None:
    timeline, _ = _made()
    timeline.follow(Put(Node("a", incarnation=1), Node("a", incarnation=1, running=True)))
    for version in range(EVENTS_MAX["masters"] + 10):
        before = _queue("a", "b", in_sync="ab", version=version)
        timeline.follow(Put(_queue("b", in_sync="b", version=version + 1), before))
    assert _kinds(timeline).count(("node_down", "a")) == 1
    assert len(timeline.events) == EVENTS_MAX["masters"] + 1


def test_two_reports_of_one_failover_are_one() -> None:
    common: dict[str, Any] = {
        "kind": "promoted", "node": "b", "queue": "q", "vhost": "/", "text": "", "number": 4,
    }  # fmt: skip
    one = {**common, "at_ms": 5, "gap_ms": 40, "redelivered": None}
    other = {**common, "at_ms": 4, "gap_ms": None, "redelivered": 3}
    later = {**common, "at_ms": 9, "number": 6, "gap_ms": None, "redelivered": None}
    first, second = joined([[one, later], [other]])
    assert (first["at_ms"], first["gap_ms"], first["redelivered"]) == (4, 40, 3)
    assert second["at_ms"] == 9 and "number" not in first


def test_a_silent_node_is_suspected_before_it_is_declared_down() -> None:
    assert silence(3600).silent_ms == 3600 and LinkLoss("the connection was reset").silent_ms == 0
    timeline, clock = _made()
    timeline.link_down("a", silence(3600).silent_ms)
    clock.now_ms += 10
    before = _queue("a", "b", in_sync="ab", version=3)
    timeline.follow(Put(_queue("b", in_sync="b", version=4, epoch=2), before))
    assert timeline.events[-1]["gap_ms"] == 3610


def test_facts_that_only_the_new_master_knows_are_copied_from_it() -> None:
    master, other = FailoverTimeline("b", Clock()), FailoverTimeline("c", Clock())
    master.redelivers = lambda record: 7
    change = Put(_queue("b", "c", in_sync="bc", version=4), _queue("a", "b", "c", in_sync="abc", version=3))
    master.follow(change)
    other.follow(change)
    assert [event["redelivered"] for event in other.events] == [None]
    other.merge(master.take_fresh())
    assert [event["redelivered"] for event in other.events] == [7]


def test_the_timeline_outlives_the_process(tmp_path: Path) -> None:
    timeline, clock = _made()
    file = TimelineFile(tmp_path / NAME, timeline)
    for version in range(LINES_MAX + 50):
        clock.now_ms += 1
        timeline.follow(Put(_queue("a", "b", in_sync="ab", version=version + 1),
                            _queue("a", "b", in_sync="a", version=version)))  # fmt: skip
        file.write(timeline.take_fresh())
    written = (tmp_path / NAME).read_bytes()
    assert len(written.splitlines()) <= LINES_MAX
    again = FailoverTimeline("b", clock)
    again.merge(read_events(written + b'{"at_ms": 1, "ki'))
    assert again.events == timeline.events and len(again.events) == EVENTS_MAX["mirrors"]
