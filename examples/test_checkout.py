"""Tests with mirrormq.testing: a real node for the whole session, a cluster where a test kills nodes.

pytest examples/test_checkout.py
"""

from __future__ import annotations

import pika

from mirrormq.testing import Cluster


def send_order(uri: str, order: bytes) -> None:
    """Publish a durable, confirmed order: the code under test."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare("checkout", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "checkout", order, pika.BasicProperties(delivery_mode=2), mandatory=True)
    connection.close()


def received(uri: str) -> bytes | None:
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    body = connection.channel().basic_get("checkout", auto_ack=True)[2]
    connection.close()
    return body


def test_an_order_is_received(mirrormq_node: Cluster) -> None:
    """Use the fixture `mirrormq_node` of the package, whose node all tests share."""
    send_order(mirrormq_node.uri(), b"bread")
    assert received(mirrormq_node.uri()) == b"bread"


def test_an_order_survives_the_node_that_took_it() -> None:
    with Cluster(nodes=2, mirror_all=True) as cluster:
        send_order(cluster.uri(0), b"cheese")
        cluster.kill(0)
        assert received(cluster.uri(1)) == b"cheese"
