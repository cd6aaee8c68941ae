"""Periodic look of a link at its source: the backlog, and queues that are gone."""

from __future__ import annotations

from dataclasses import replace

from mirrormq.bridges.link import CHECK_INTERVAL_MS, Side
from mirrormq.wire import methods
from tests.bridges.link_bench import LinkBench, filled, plan_between_queues


def test_a_link_knows_what_waits_at_its_source_and_when_it_last_moved_a_message() -> None:
    bench = LinkBench(plan_between_queues(prefetch=10))
    bench.start()
    bench.settle()
    assert (bench.link.status().backlog, bench.link.status().last_message_ms) == (0, 0)
    bench.now_ms = 500
    filled(bench, 1)
    bench.settle()
    assert bench.link.status().last_message_ms == 500
    bench.accepts_output = False
    filled(bench, 50)
    bench.settle()
    assert bench.link.status().backlog == 0, "it has not looked again"
    bench.advance(CHECK_INTERVAL_MS)
    status = bench.link.status()
    assert (status.backlog, status.pending, status.last_message_ms) == (40, 10, 500)
    bench.cut(Side.SOURCE)
    assert bench.link.status().backlog == -1


def test_a_source_queue_that_was_deleted_without_a_consumer_is_declared_again() -> None:
    bench = LinkBench(replace(plan_between_queues(), consume_at_start=False))
    bench.start()
    bench.settle()
    bench.source.connect().call(methods.encode_queue_delete("from"))
    bench.advance(CHECK_INTERVAL_MS)
    assert bench.link.status().restarts == 1
    assert bench.link.status().reason == "source: NOT_FOUND - no queue 'from' in vhost '/'"
    bench.advance(0)
    assert bench.link.status().state == "running"
    assert ("/", "from") in bench.source.metadata.state.queues
