"""pika's blocking connection publishes: confirms, returns, exchanges, properties, headers, large bodies."""

from __future__ import annotations

import datetime
import decimal
import os
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError, UnroutableError

MIB = 1024 * 1024

PIKA_HEADERS: dict[str, Any] = {
    "boolean": True,
    "not": False,
    "small": -1,
    "integer": 2**31 - 1,
    "long": -(2**40),
    "decimal": decimal.Decimal("-12.34"),
    "text": "Zuß 漢字 🐇",
    "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 5, tzinfo=datetime.UTC),
    "table": {"inner": {"deeper": [1, {"deepest": "yes"}]}},
    "list": [1, "two", [3, None], {"four": 4}],
    "bytes": b"\x00\xff raw",
    "nothing": None,
    "empty": {},
    "no-items": [],
}
"""Every type of field that pika can write; doubles are not among them."""


def get(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None, f"{queue} is empty"
    return method, properties, body


def test_a_confirmed_message_is_in_the_queue(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
    assert channel.queue_declare(queue, passive=True).method.message_count == 20
    assert [get(channel, queue)[2] for _ in range(20)] == [b"%d" % number for number in range(20)]
    assert channel.basic_get(queue) == (None, None, None)


def test_an_unroutable_mandatory_message_comes_back_before_its_confirm(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as raised:
        channel.basic_publish("", name, b"lost", pika.BasicProperties(headers={"a": 1}), mandatory=True)
    [message] = raised.value.messages
    assert (message.method.reply_code, message.method.reply_text) == (312, "NO_ROUTE")
    assert (message.method.routing_key, message.properties.headers, message.body) == (name, {"a": 1}, b"lost")
    channel.basic_publish("", name, b"lost")  # without mandatory it is confirmed, and gone


def test_a_full_queue_refuses_with_a_nack(channel: BlockingChannel, name: str) -> None:
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, exclusive=True, arguments=limits)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"first")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"second")
    assert get(channel, name)[2] == b"first"


def test_every_exchange_type_routes_its_own_way(channel: BlockingChannel, name: str) -> None:
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    bindings: dict[str, list[tuple[str, dict[str, Any] | None]]] = {
        "direct": [("red", None), ("green", None), ("red", None)],
        "fanout": [("", None), ("", None), ("", None)],
        "topic": [("stock.*.usd", None), ("stock.#", None), ("#.nyse", None)],
        "headers": [
            ("", {"x-match": "all", "a": 1, "b": "two"}),
            ("", {"x-match": "any", "a": 1, "b": "three"}),
            ("", {"x-match": "all", "a": 2}),
        ],
    }
    publishes: dict[str, tuple[str, dict[str, Any] | None, list[bool]]] = {
        "direct": ("red", None, [True, False, True]),
        "fanout": ("whatever", None, [True, True, True]),
        "topic": ("stock.ibm.nyse", None, [False, True, True]),
        "headers": ("", {"a": 1, "b": "two"}, [True, True, False]),
    }
    for kind, rows in bindings.items():
        exchange = f"{name}-{kind}"
        channel.exchange_declare(exchange, kind, auto_delete=True)
        for queue, (key, arguments) in zip(queues, rows, strict=True):
            channel.queue_bind(queue, exchange, key, arguments)
        key, headers, expected = publishes[kind]
        channel.basic_publish(exchange, key, kind.encode(), pika.BasicProperties(headers=headers))
        assert [channel.basic_get(queue, auto_ack=True)[2] is not None for queue in queues] == expected, kind


def test_exchanges_bind_to_exchanges_and_unbind(channel: BlockingChannel, queue: str, name: str) -> None:
    channel.exchange_declare(f"{name}-outer", "topic")
    channel.exchange_declare(f"{name}-inner", "fanout")
    channel.exchange_bind(f"{name}-inner", f"{name}-outer", "a.#")
    channel.queue_bind(queue, f"{name}-inner")
    channel.basic_publish(f"{name}-outer", "a.b", b"through")
    assert get(channel, queue)[2] == b"through"
    channel.exchange_unbind(f"{name}-inner", f"{name}-outer", "a.#")
    channel.basic_publish(f"{name}-outer", "a.b", b"nowhere")
    assert channel.basic_get(queue)[0] is None
    for exchange in ("outer", "inner"):
        channel.exchange_delete(f"{name}-{exchange}")


def test_every_header_type_comes_back_as_it_was(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers=PIKA_HEADERS))
    _, properties, _ = get(channel, queue)
    assert properties.headers == PIKA_HEADERS


def test_every_property_comes_back_as_it_was(channel: BlockingChannel, queue: str) -> None:
    sent = pika.BasicProperties(
        content_type="application/json", content_encoding="gzip", headers={"k": "v"}, delivery_mode=2,
        priority=7, correlation_id="corr", reply_to="answers", expiration="60000", message_id="id-1",
        timestamp=1700000000, type="kind", user_id="guest", app_id="tests", cluster_id="one",
    )  # fmt: skip
    channel.basic_publish("", queue, b"{}", sent)
    method, properties, body = get(channel, queue)
    assert properties == sent
    assert (method.exchange, method.routing_key, method.redelivered, body) == ("", queue, False, b"{}")


def test_names_may_be_any_unicode(channel: BlockingChannel, name: str) -> None:
    queue, exchange, key = f"очередь-{name}", f"交換-{name}", "schlüssel.🐇"
    channel.queue_declare(queue, exclusive=True)
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    channel.queue_bind(queue, exchange, "schlüssel.*")
    channel.basic_publish(exchange, key, "Grüße".encode())
    method, _, body = get(channel, queue)
    assert (method.exchange, method.routing_key, body.decode()) == (exchange, key, "Grüße")


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, MIB, 10 * MIB])
def test_bodies_of_any_size(channel: BlockingChannel, queue: str, size: int) -> None:
    """131,064 octets just fill a frame of 131,072."""
    channel.confirm_delivery()
    body = os.urandom(size)
    channel.basic_publish("", queue, body, mandatory=True)
    assert get(channel, queue)[2] == body
    channel.basic_publish("", queue, body)
    _, _, consumed = next(channel.consume(queue, auto_ack=True))
    assert consumed == body
    channel.cancel()


def test_expired_messages_leave_for_the_dead_letter_exchange(channel: BlockingChannel, name: str) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.basic_publish("", name, b"short", pika.BasicProperties(expiration="20"))
    method, properties, body = next(channel.consume(dead, auto_ack=True, inactivity_timeout=20))
    assert method is not None and body == b"short"
    [death] = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"], death["exchange"]) == ("expired", name, 1, "")
    assert (death["routing-keys"], death["original-expiration"]) == ([name], "20")
    assert properties.expiration is None and properties.headers["x-first-death-reason"] == "expired"


def test_higher_priorities_are_delivered_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"x-max-priority": 5})
    for priority in (0, 3, 1, 5, 3, 9, None):
        body = str(priority).encode()
        channel.basic_publish("", name, body, pika.BasicProperties(priority=priority))
    order = [get(channel, name)[2] for _ in range(7)]
    assert order == [b"5", b"9", b"3", b"3", b"1", b"0", b"None"]


def test_a_transaction_publishes_on_commit_and_forgets_on_rollback(
    channel: BlockingChannel, queue: str
) -> None:
    channel.tx_select()
    channel.basic_publish("", queue, b"kept")
    assert channel.basic_get(queue)[0] is None
    channel.tx_commit()
    channel.basic_publish("", queue, b"forgotten")
    channel.tx_rollback()
    method, _, body = channel.basic_get(queue)
    assert body == b"kept"
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()  # the acknowledgement is forgotten, and the message still unacknowledged
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
