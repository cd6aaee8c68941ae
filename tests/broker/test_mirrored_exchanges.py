"""Declaration of exchanges with x-mirrored; the cluster tests cover its effect."""

from __future__ import annotations

from typing import Any

from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import Client, Node


def declare(client: Client, mirrored: Field | None = None) -> Any:
    arguments = {} if mirrored is None else {"x-mirrored": mirrored}
    return client.call(methods.encode_exchange_declare("x", "fanout", arguments=arguments))


def test_only_a_boolean_says_whether_an_exchange_is_mirrored() -> None:
    closed = declare(Node().connect(), Field("S", b"true"))
    assert (closed.reply_code, closed.reply_text) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-mirrored' for exchange 'x' in vhost '/': "
        "{unacceptable_type,longstr}",
    )


def test_an_exchange_declared_again_must_be_as_mirrored_as_it_was() -> None:
    client = Node().connect()
    assert declare(client, Field("t", True)) == methods.ExchangeDeclareOk()
    assert declare(client, Field("t", True)) == methods.ExchangeDeclareOk()
    closed = declare(client)
    assert closed.reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-mirrored' for exchange 'x' in vhost '/': "
        "received none but current is the value 'true' of type 'bool'"
    )


def test_saying_that_it_is_not_mirrored_is_saying_nothing() -> None:
    client = Node().connect()
    assert declare(client) == methods.ExchangeDeclareOk()
    assert declare(client, Field("t", False)) == methods.ExchangeDeclareOk()
