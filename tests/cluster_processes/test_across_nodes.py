"""Behaviour that does not depend on the client's node: limits, and a queue whose only node is down.

The texts are what three nodes of RabbitMQ 3.10.8 said to the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mirrormq.testing import Cluster
from tests.waiting import until

HOME_IS_DOWN = "NOT_FOUND - home node '{}' of durable queue 'far' in vhost '/' is down or inaccessible"
DEEDS: dict[str, Callable[[BlockingChannel], object]] = {
    "passive": lambda c: c.queue_declare("far", passive=True),
    "declare": lambda c: c.queue_declare("far", durable=True),
    "declare transient": lambda c: c.queue_declare("far"),
    "declare with arguments": lambda c: c.queue_declare("far", durable=True, arguments={"x-max-length": 5}),
    "declare exclusive": lambda c: c.queue_declare("far", durable=True, exclusive=True),
    "get": lambda c: c.basic_get("far"),
    "consume": lambda c: c.basic_consume("far", lambda *_: None),
    "bind": lambda c: c.queue_bind("far", "amq.direct", "k"),
    "unbind": lambda c: c.queue_unbind("far", "amq.direct", "k"),
    "purge": lambda c: c.queue_purge("far"),
    "delete": lambda c: c.queue_delete("far"),
    "delete if empty": lambda c: c.queue_delete("far", if_empty=True),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as started:
        yield started


def connect(cluster: Cluster, node: int, user: str = "guest", vhost: str = "%2F") -> pika.BlockingConnection:
    uri = cluster.uri(node, vhost).replace("guest:guest", f"{user}:{user}")
    return pika.BlockingConnection(pika.URLParameters(uri))


def refusal(deed: Callable[[], object]) -> tuple[int, str]:
    """With what the broker ended a channel or connection."""
    with pytest.raises(pika.exceptions.AMQPError) as caught:
        deed()
    error: Any = caught.value
    if isinstance(error, pika.exceptions.ProbableAccessDeniedError):
        return 530, str(error.args[0])
    return error.reply_code, error.reply_text


def test_the_connections_of_a_vhost_are_bounded_over_all_nodes(cluster: Cluster) -> None:
    cluster.ctl("add_vhost", "small")
    cluster.ctl("set_permissions", "-p", "small", "guest", ".*", ".*", ".*", node=1)
    cluster.ctl("set_vhost_limits", "-p", "small", '{"max-connections": 2}', node=2)
    with ExitStack() as stack:
        first, second = (stack.enter_context(connect(cluster, node, vhost="small")) for node in (0, 1))
        code, text = refusal(lambda: connect(cluster, 2, vhost="small"))
        assert code == 530
        assert "access to vhost 'small' refused for user 'guest': connection limit (2) is reached" in text
        first.close()
        third = until(lambda: attempt(cluster, vhost="small"))
        assert second.is_open
        third.close()


def attempt(cluster: Cluster, vhost: str) -> pika.BlockingConnection | None:
    try:
        return connect(cluster, 2, vhost=vhost)
    except pika.exceptions.AMQPError:
        return None


def test_the_connections_and_channels_of_a_user_are_bounded_over_all_nodes(cluster: Cluster) -> None:
    cluster.ctl("add_user", "bob", "bob")
    cluster.ctl("set_permissions", "bob", ".*", ".*", ".*")
    cluster.ctl("set_user_limits", "bob", '{"max-connections": 2, "max-channels": 3}')
    with connect(cluster, 1, "bob") as first, connect(cluster, 2, "bob") as second:
        code, text = refusal(lambda: connect(cluster, 0, "bob"))
        assert code == 530
        assert "connection refused for user 'bob': user connection limit (2) is reached" in text
        for connection in (first, first, second):
            connection.channel()
        assert refusal(second.channel) == (
            530,
            "NOT_ALLOWED - number of channels opened for user 'bob' has reached the maximum allowed user "
            "limit of (3)",
        )


def test_nothing_can_be_done_with_a_durable_queue_whose_only_node_is_down(cluster: Cluster) -> None:
    with connect(cluster, 1) as connection:
        connection.channel().queue_declare("far", durable=True)
    cluster.kill(1)
    until(lambda: "far\tdown" in cluster.ctl("-q", "list_queues", "name", "state"))
    expected = (404, HOME_IS_DOWN.format(cluster.name(1)))
    with connect(cluster, 0) as connection:
        for name, deed in DEEDS.items():
            channel = connection.channel()
            assert refusal(lambda deed=deed, channel=channel: deed(channel)) == expected, name  # type: ignore[misc]
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "far", b"nobody would keep it")
    with pytest.raises(RuntimeError, match="not_found"):
        cluster.ctl("purge_queue", "far")
    cluster.start(1)
    with connect(cluster, 0) as connection:
        until(lambda: "far\trunning" in cluster.ctl("-q", "list_queues", "name", "state"))
        assert connection.channel().queue_delete("far").method.message_count == 0
