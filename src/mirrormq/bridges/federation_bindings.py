"""Binding propagation of exchange federation: bindings of the federated exchange are made upstream, too.

Each distinct pair of routing key and arguments is bound once upstream. A binding carries `x-bound-from`: its
way over the clusters, newest first. A binding of a client may travel `max-hops` links; one that came over
federation, one link less than its newest entry says. A binding never returns to a cluster where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirrormq.metadata.records import Binding
from mirrormq.wire.fields import Field, Table, decode_entries, encode_table

BOUND_FROM = "x-bound-from"
HOPS_MAX = 32_767
"""Largest number of hops in a binding: a signed 16-bit number, as in RabbitMQ."""


class Place(NamedTuple):
    """Vhost of a cluster."""

    cluster: str
    vhost: str


class UpstreamBinding(NamedTuple):
    """Binding at the upstream."""

    routing_key: str
    arguments: bytes
    """Encoded table with its length: tables are not hashable."""


def upstream_bindings(
    bindings: Iterable[Binding], exchange: str, max_hops: int, here: Place, upstream: Place
) -> dict[UpstreamBinding, Table]:
    """Return the bindings that a link makes at the upstream; `exchange` names the downstream's in them."""
    found: dict[UpstreamBinding, Table] = {}
    for binding in bindings:
        arguments = decode_entries(binding.arguments)
        before = _entries(arguments)
        hops = min(max_hops, HOPS_MAX)
        if before:
            hops = min(_hops(before[0]) - 1, hops)
        if hops <= 0 or any(_is_place(entry, upstream) for entry in before):
            continue
        entry: Table = {
            "cluster-name": _text(here.cluster),
            "vhost": _text(here.vhost),
            "exchange": _text(exchange),
            "hops": Field("s", hops),
        }
        arguments = {**arguments, BOUND_FROM: Field("A", [Field("F", entry), *before])}
        found[UpstreamBinding(binding.routing_key, encode_table(arguments))] = arguments
    return found


def _text(text: str) -> Field:
    return Field("S", text.encode("utf-8", "surrogateescape"))


def _entries(arguments: Table) -> list[Field]:
    field = arguments.get(BOUND_FROM)
    if field is None or field.kind != "A":
        return []
    return [entry for entry in field.value if entry.kind == "F"]


def _hops(entry: Field) -> int:
    hops = entry.value.get("hops")
    return hops.value if hops is not None and isinstance(hops.value, int) else 0


def _is_place(entry: Field, place: Place) -> bool:
    values = [entry.value.get(name) for name in ("cluster-name", "vhost")]
    return values == [_text(place.cluster), _text(place.vhost)]
