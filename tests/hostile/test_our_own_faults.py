"""A defect of ours: planted in a real node, it costs one connection, and the log tells where it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mirrormq.wire import methods
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.bystander import beside
from tests.hostile.raw import RawClient, publish_bytes, ready_client

DEFECTS = """
import sys
if sys.argv[0].endswith("/mirrormq"):
    from mirrormq.channels import channel, consumer
    from mirrormq.wire import methods

    def defective(self, method):
        raise ZeroDivisionError("planted in basic.qos")

    channel.METHODS[methods.BASIC_QOS] = defective
    deliver, terminate = consumer.Consumer.deliver, channel.Channel.terminate

    def defective_deliver(self, messages):
        if self.tag == "defective":
            raise ZeroDivisionError("planted in deliver")
        deliver(self, messages)

    def defective_terminate(self):
        terminate(self)
        if self.number == 666:
            raise ZeroDivisionError("planted in terminate")

    consumer.Consumer.deliver = defective_deliver
    channel.Channel.terminate = defective_terminate
"""
"""Run by the node's interpreter when it starts, as sitecustomize.py."""


class DefectiveNode(MirrorMQ):
    def environment(self) -> dict[str, str]:
        defects = self.directory / "defects"
        defects.mkdir(exist_ok=True)
        (defects / "sitecustomize.py").write_text(DEFECTS)
        # Compiled callers ignore methods that are replaced.
        return super().environment() | {"PYTHONPATH": str(defects), "MIRRORMQ_BUILD": "pure"}


@pytest.fixture(autouse=True)
def no_tracebacks() -> None:
    """Here they are wanted."""


@pytest.fixture(scope="module")
def defective() -> Iterator[MirrorMQ]:
    with DefectiveNode() as node:
        yield node


def until_logged(node: MirrorMQ, text: str) -> None:
    deadline = time.monotonic() + 40
    while text not in node.output:
        assert time.monotonic() < deadline, node.output[-2000:]
        time.sleep(0.02)


def test_an_unexpected_exception_closes_the_connection_with_541(defective: MirrorMQ) -> None:
    with beside(defective):
        client = RawClient(defective.amqp_port).log_in().open_channel()
        client.method(1, methods.encode_basic_qos(0, 1))
        closed = client.expect("ConnectionClose")
        assert (closed.reply_code, closed.reply_text) == (541, "INTERNAL_ERROR")
        client.method(0, methods.encode_connection_close_ok())
        client.until_closed()
        client.close()
    until_logged(defective, "ZeroDivisionError: planted in basic.qos")
    assert "in defective" in defective.output, "the traceback names the place"


def test_messages_of_closed_channels_return_to_the_queue(defective: MirrorMQ) -> None:
    with ready_client(defective.amqp_port) as other:
        other.declare("returned", durable=True)
        other.send(publish_bytes("returned", b"kept") * 3)
        client = RawClient(defective.amqp_port).log_in().open_channel()
        client.method(1, methods.encode_basic_get("returned"))
        client.expect("BasicGetOk")
        client.method(1, methods.encode_basic_qos(0, 1))
        client.expect("ConnectionClose")
        other.method(1, methods.encode_queue_declare("returned", passive=True))
        assert other.expect("QueueDeclareOk").message_count == 3
        other.method(1, methods.encode_queue_delete("returned"))
        client.close()


def test_a_queue_that_fails_leaves_the_turn_to_the_others(defective: MirrorMQ) -> None:
    """The fault is in nobody's request but at the end of a turn: it is logged, and the turn is finished."""
    with beside(defective), ready_client(defective.amqp_port) as client:
        client.declare("doomed", exclusive=True)
        client.method(1, methods.encode_basic_consume("doomed", "defective", no_ack=True))
        client.expect("BasicConsumeOk")
        client.send(publish_bytes("doomed", b"x"))
        until_logged(defective, "ZeroDivisionError: planted in deliver")
        client.declare("fine", exclusive=True)


def test_even_if_the_closing_fails_too(defective: MirrorMQ) -> None:
    with beside(defective):
        client = RawClient(defective.amqp_port).log_in().open_channel(666)
        client.method(666, methods.encode_basic_qos(0, 1))
        client.until_closed()
        client.close()
        until_logged(defective, "ZeroDivisionError: planted in terminate")
        deadline = time.monotonic() + 40
        while len(defective.control("list_connections", "pid").splitlines()) > 2:
            assert time.monotonic() < deadline, "the connection is still listed"
