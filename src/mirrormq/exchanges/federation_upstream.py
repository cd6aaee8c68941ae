"""x-federation-upstream: fanout in front of the internal queue of a federation link.

A downstream broker declares it here, on the upstream, and binds it to the federated exchange. It stops a
message that has made its maximum number of hops, and one that has already been at the downstream: without
that, two clusters that federate from each other would send a message in circles.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Properties
from mirrormq.exchanges.fanout import FanoutExchange
from mirrormq.wire.fields import Table

MAX_HOPS_ARGUMENT = "x-max-hops"
DOWNSTREAM_NAME_ARGUMENT = "x-downstream-name"
DOWNSTREAM_VHOST_ARGUMENT = "x-downstream-vhost"
RECEIVED_FROM_HEADER = "x-received-from"
LONG = "l"


def validate_arguments(arguments: Table) -> None:
    """Refuse a declaration without a number of hops."""
    field = arguments.get(MAX_HOPS_ARGUMENT)
    if field is None:
        raise PreconditionFailed(f"Argument {MAX_HOPS_ARGUMENT} missing")
    if field.kind != LONG:
        raise PreconditionFailed(f"Argument {MAX_HOPS_ARGUMENT} must be of type long")


def should_forward(headers: Table, hops_max: int, cluster: bytes, vhost: bytes) -> bool:
    """Return whether a message may go on to a vhost of a cluster: hops are left, and it was not there."""
    received_from = headers.get(RECEIVED_FROM_HEADER)
    if received_from is None or received_from.kind != "A":
        return True
    hops = received_from.value
    return len(hops) < hops_max and not any(
        hop.kind == "F" and _text(hop.value, "cluster-name") == cluster and _text(hop.value, "vhost") == vhost
        for hop in hops
    )


def _text(table: Table, name: str) -> object:
    field = table.get(name)
    return None if field is None else field.value


class FederationUpstreamExchange(FanoutExchange):
    kind = "x-federation-upstream"
    needs_headers = True
    cacheable = False

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name)
        self._hops_max: int = arguments[MAX_HOPS_ARGUMENT].value
        self._cluster = _argument(arguments, DOWNSTREAM_NAME_ARGUMENT)
        self._vhost = _argument(arguments, DOWNSTREAM_VHOST_ARGUMENT)

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        if not should_forward(headers, self._hops_max, self._cluster, self._vhost):
            return ()
        return super().route(routing_key, headers, properties)


def _argument(arguments: Table, name: str) -> bytes:
    """Return a text argument; downstreams of old versions leave it out."""
    field = arguments.get(name)
    return field.value if field is not None and isinstance(field.value, bytes) else b""
