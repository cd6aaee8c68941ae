"""Ready messages and consumers of queues, by passive declarations: statistics would be seconds old."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from mirrormq.client.amqp_uri import parse_amqp_uri
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.client_io.client_socket import ChannelEnded, ClientError, ConnectionEnded
from mirrormq.migration.move_ledger import QueueKey
from mirrormq.migration_io.broker_api import NOT_FOUND, Unreachable
from mirrormq.migration_io.moving_link import PRODUCT
from mirrormq.wire import methods


class Counts(NamedTuple):
    """Ready messages and consumers of one queue."""

    ready: int
    consumers: int


def count(title: str, uris: list[str], queues: Iterable[QueueKey]) -> dict[QueueKey, Counts]:
    """Return the counts of the queues that exist."""
    by_vhost: dict[str, list[str]] = defaultdict(list)
    for vhost, name in queues:
        by_vhost[vhost].append(name)
    found: dict[QueueKey, Counts] = {}
    for vhost, names in by_vhost.items():
        remaining = list(names)
        # A queue that does not exist closes the channel, so the rest is counted over another connection.
        while remaining:
            try:
                with _connected(title, uris, vhost) as client:
                    _count_until_missing(client, vhost, remaining, found)
            except ClientError as error:
                raise Unreachable(f"the queues of the {title} cluster cannot be counted: {error}") from None
    return found


def _count_until_missing(
    client: BlockingClient, vhost: str, remaining: list[str], found: dict[QueueKey, Counts]
) -> None:
    while remaining:
        name = remaining.pop()
        try:
            reply = client.call(methods.encode_queue_declare(name, passive=True))
        except ChannelEnded as error:
            if error.closed.code != NOT_FOUND:
                raise
            return
        assert isinstance(reply, methods.QueueDeclareOk)
        found[vhost, name] = Counts(reply.message_count, reply.consumer_count)


def _connected(title: str, uris: list[str], vhost: str) -> BlockingClient:
    problems = []
    for uri in uris:
        parsed = replace(parse_amqp_uri(uri).for_socket(), vhost=vhost)
        try:
            return BlockingClient(parsed, ClientOptions.of_uri(parsed, PRODUCT, heartbeat_s=None))
        except ConnectionEnded as error:
            problems.append(str(error))
    raise Unreachable(f"cannot connect to the {title} cluster: {'; '.join(problems)}")


def check_login(title: str, uris: list[str]) -> None:
    """Connect once; raise Unreachable with the reason if that fails."""
    vhost = parse_amqp_uri(uris[0]).for_socket().vhost or "/"
    _connected(title, uris, vhost).close()
