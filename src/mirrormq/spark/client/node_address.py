"""Node addresses of the Spark client: several AMQP URIs in one option, with defaults for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirrormq.client.amqp_uri import URI_FORM, AmqpUri, ClientTls, parse_amqp_uri


def parse_uris(uris: str, vhost: str | None = None, tls: ClientTls | None = None) -> tuple[AmqpUri, ...]:
    """Parse a comma-separated list of nodes; ValueError describes the fault in one sentence."""
    found = [parse_uri(uri.strip(), vhost, tls) for uri in uris.split(",") if uri.strip()]
    if not found:
        raise ValueError(f"give at least one URI of the form {URI_FORM}")
    return tuple(found)


def parse_uri(uri: str, vhost: str | None = None, tls: ClientTls | None = None) -> AmqpUri:
    """Parse the URI of one node; `vhost` and `tls` replace those of the URI."""
    parsed = parse_amqp_uri(uri).for_socket()
    if parsed.tls is not None and tls is not None:
        parsed = replace(parsed, tls=tls)
    return parsed if vhost is None else replace(parsed, vhost=vhost)


def preferring(addresses: Sequence[AmqpUri], first: int) -> tuple[AmqpUri, ...]:
    """Rotate the nodes to begin at index `first`, to spread tasks over them."""
    first %= len(addresses)
    return (*addresses[first:], *addresses[:first])
