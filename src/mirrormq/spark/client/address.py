"""Nodes of a cluster, as a comma-separated list of URIs. Nothing here shows a password when it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirrormq.client.amqp_uri import URI_FORM, AmqpUri, ClientTls, parse_amqp_uri

Address = AmqpUri
"""One node."""


def parse_uris(uris: str, vhost: str | None = None, tls: ClientTls | None = None) -> tuple[Address, ...]:
    """The nodes of a comma-separated list; ValueError says in one sentence what is wrong with it."""
    found = [parse_uri(uri.strip(), vhost, tls) for uri in uris.split(",") if uri.strip()]
    if not found:
        raise ValueError(f"give at least one URI of the form {URI_FORM}")
    return tuple(found)


def parse_uri(uri: str, vhost: str | None = None, tls: ClientTls | None = None) -> Address:
    """Parse one node's URI. `vhost` and TLS options override what the URI says."""
    parsed = parse_amqp_uri(uri).for_socket()
    user, password = parsed.login
    if parsed.tls is not None and tls is not None and tls != ClientTls():
        parsed = replace(parsed, tls=tls)
    return replace(parsed, user=user, password=password, vhost=parsed.vhost if vhost is None else vhost)


def preferring(addresses: Sequence[Address], first: int) -> tuple[Address, ...]:
    """The same nodes, beginning with another one, so that tasks spread over them."""
    first %= len(addresses)
    return (*addresses[first:], *addresses[:first])
