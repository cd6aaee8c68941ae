"""Exchange links whose setup breaks: what the upstream publishes meanwhile arrives."""

from __future__ import annotations

import pytest

from mirrormq.bridges.federation_exchange import exchange_plan
from mirrormq.bridges.federation_links import EXCHANGE_LINK, FederatedExchange, link_name
from mirrormq.bridges.federation_parameters import upstream_of
from mirrormq.bridges.link import CHECK_INTERVAL_MS, Link, Phase, Side
from mirrormq.bridges.link_plan import LinkContext
from mirrormq.metadata.records import Exchange
from mirrormq.wire import methods
from tests.bridges.link_bench import LinkBench, drained, plan_between_queues

OCTETS = 120
"""Octets of one stream that move at once."""

HANDSHAKE_STEPS = 24
"""Steps before the setup: the source's broker has seen none of its requests."""

BREAKS = 3
"""Attempts that break one after the other, before the last one may finish."""


class FederationBench(LinkBench):
    """Link of the exchange `fed.x`, with a queue `to` that is bound to it at the downstream."""

    def __init__(self) -> None:
        super().__init__(plan_between_queues())
        downstream = self.destination.connect()
        downstream.call(methods.encode_exchange_declare("fed.x", "topic", durable=True))
        downstream.call(methods.encode_queue_declare("to", durable=True))
        for key in ("a.#", "b.#", "c.#"):
            downstream.call(methods.encode_queue_bind("to", "fed.x", key))
        upstream = upstream_of("u", {"uri": "amqp://source/%2F"}, {})
        exchange = Exchange("/", "fed.x", "topic", durable=True)
        definition = FederatedExchange(exchange, upstream, "p", "downstream")
        context = LinkContext(self.destination.metadata.state, "downstream", lambda: 0, lambda: (0, 0))
        link_key = ("/", EXCHANGE_LINK, link_name("fed.x", "u"))
        self.link = Link(exchange_plan(link_key, definition, context), self)
        self.published = 0
        self.publisher = self.source.connect()

    def publish(self) -> None:
        """Publish a message at the upstream."""
        self.publisher.publish("c.k", b"%d" % self.published, exchange="fed.x", persistent=True)
        self.publisher.read()
        self.published += 1

    def break_after(self, steps: int) -> bool:
        """Begin an attempt, break it after some steps; return whether its setup was under way."""
        self.now_ms += 5_000
        self.link.tick(self.now_ms)
        for number in range(steps):
            self.step(Side.SOURCE if number % 4 < 2 else Side.DESTINATION, number % 2 == 0, OCTETS)
            self.publish()
        under_way = self.link.phase is not Phase.RUNNING
        self.cut(Side.SOURCE)
        return under_way

    def internal_exchanges(self) -> list[str]:
        exchanges = self.source.metadata.state.exchanges
        return [name for _, name in exchanges if name.startswith("federation: ")]


@pytest.mark.parametrize("runs_before", [1, 2])
def test_setups_that_break_lose_nothing(runs_before: int) -> None:
    """The attempts before the breaks end with the internal exchange A, or with B."""
    steps = HANDSHAKE_STEPS
    under_way = True
    while under_way:
        bench = FederationBench()
        bench.start()
        bench.settle()
        for _ in range(runs_before - 1):
            bench.cut(Side.SOURCE)
            bench.advance(5_000)
        assert bench.link.phase is Phase.RUNNING
        assert len(bench.internal_exchanges()) == 1
        bench.cut(Side.SOURCE)
        under_way = True in [bench.break_after(steps) for _ in range(BREAKS)]
        # A whole setup follows, with messages between its steps.
        bench.break_after(160)
        bench.advance(5_000)
        bench.publish()
        bench.settle()
        assert bench.link.phase is Phase.RUNNING
        assert len(bench.internal_exchanges()) == 1
        arrived = set(drained(bench.destination, "to"))
        missing = sorted(set(range(bench.published)) - arrived)
        assert not missing, f"breaks after {steps} steps: {len(missing)} of {bench.published}"
        steps += 3


def test_an_internal_exchange_that_an_operator_deletes_is_declared_again() -> None:
    bench = FederationBench()
    bench.start()
    bench.settle()
    for _ in range(3):
        assert bench.link.wake_ms == bench.now_ms + CHECK_INTERVAL_MS
        bench.advance(CHECK_INTERVAL_MS)
    assert bench.link.status().restarts == 0
    [internal] = bench.internal_exchanges()
    bench.source.connect().call(methods.encode_exchange_delete(internal))
    bench.advance(CHECK_INTERVAL_MS)
    assert bench.link.status().restarts == 1
    assert bench.link.status().reason == f"source: NOT_FOUND - no exchange '{internal}' in vhost '/'"
    bench.advance(0)
    assert bench.link.phase is Phase.RUNNING
    bench.publish()
    bench.settle()
    assert drained(bench.destination, "to") == [0]


def test_a_binding_that_was_removed_between_broken_setups_ends_at_the_upstream() -> None:
    bench = FederationBench()
    bench.start()
    bench.settle()
    bench.cut(Side.SOURCE)
    steps = 0
    while len(bench.internal_exchanges()) < 2:
        steps += 1
        bench.break_after(steps)
    downstream = bench.destination.connect()
    downstream.call(methods.encode_queue_unbind("to", "fed.x", "b.#"))
    bench.advance(5_000)
    assert bench.link.phase is Phase.RUNNING
    keys = {
        binding.routing_key for binding in bench.source.metadata.state.bindings_from("/", "fed.x").values()
    }
    assert keys == {"a.#", "c.#"}
