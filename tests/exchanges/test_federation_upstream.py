"""x-federation-upstream: a message goes on only if it has hops left and was not at the downstream."""

from __future__ import annotations

import pytest

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import to_queue
from mirrormq.exchanges.exchange import Exchange
from mirrormq.exchanges.exchange_types import create
from mirrormq.wire.fields import Field, Table, table_of


def upstream(hops: int, cluster: str = "down", vhost: str = "/") -> Exchange:
    arguments: Table = {
        "x-max-hops": Field("l", hops),
        "x-downstream-name": Field("S", cluster.encode()),
        "x-downstream-vhost": Field("S", vhost.encode()),
    }
    exchange = create("x-federation-upstream", "federation: x -> down A", arguments, lambda count: 0)
    exchange.bind(to_queue("federation: x -> down"))
    return exchange


def after(*hops: tuple[str, str]) -> Table:
    """Return the headers of a message that came through these clusters and vhosts."""
    came = [{"cluster-name": cluster, "vhost": vhost, "uri": "amqp://h"} for cluster, vhost in hops]
    return table_of({"x-received-from": came})


@pytest.mark.parametrize(
    ("hops", "headers", "forwarded"),
    [
        (1, {}, True),
        (1, after(("up", "/")), False),
        (2, after(("up", "/")), True),
        (2, after(("up", "/"), ("far", "/")), False),
        (5, after(("up", "/"), ("down", "/")), False),
        (5, after(("up", "/"), ("down", "other")), True),
        (1, table_of({"x-received-from": "nonsense"}), True),
        (5, table_of({"x-received-from": ["nonsense", {}]}), True),
    ],
)
def test_hops_and_cycles_end_at_the_upstream(hops: int, headers: Table, forwarded: bool) -> None:
    assert bool(list(upstream(hops).route("k", headers))) is forwarded


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Argument x-max-hops missing"),
        ({"x-max-hops": Field("S", b"1")}, "Argument x-max-hops must be of type long"),
    ],
)
def test_the_number_of_hops_is_required(arguments: Table, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        create("x-federation-upstream", "x", arguments, lambda count: 0)
