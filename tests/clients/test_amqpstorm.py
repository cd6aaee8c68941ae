"""AMQPStorm: publish, consume, transactions, and what it says of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import amqpstorm
import pytest

HEADERS: dict[str, Any] = {
    "text": "ключ",
    "integer": 5,
    "double": 0.5,
    "list": [1, "two"],
    "table": {"a": True},
}


@pytest.fixture
def storm(broker: Any) -> Iterator[amqpstorm.Channel]:
    """A channel of a connection that is closed after the test."""
    with amqpstorm.Connection("127.0.0.1", "guest", "guest", port=broker.amqp_port) as connection:
        with connection.channel() as channel:
            yield channel


def test_messages_are_published_with_confirms_and_consumed(storm: amqpstorm.Channel, name: str) -> None:
    storm.confirm_deliveries()
    storm.exchange.declare(name, "topic", auto_delete=True)
    storm.queue.declare(name, exclusive=True)
    storm.queue.bind(name, name, "a.*")
    for number in range(50):
        message = amqpstorm.Message.create(
            storm, f"body {number}", {"headers": HEADERS, "message_id": str(number)}
        )
        assert message.publish(f"a.{number}", name) is True
    received: list[amqpstorm.Message] = []

    def on_message(message: amqpstorm.Message) -> None:
        received.append(message)
        message.ack()
        if len(received) == 50:
            storm.stop_consuming()

    storm.basic.qos(10)
    storm.basic.consume(on_message, name)
    storm.start_consuming()
    assert [message.body for message in received] == [f"body {number}" for number in range(50)]
    assert received[7].properties["headers"] == HEADERS
    assert (received[7].message_id, (received[7].method or {})["routing_key"]) == ("7", "a.7")


def _get(storm: amqpstorm.Channel, queue: str) -> amqpstorm.Message:
    found = storm.basic.get(queue)
    assert isinstance(found, amqpstorm.Message)
    return found


def test_get_reject_and_purge(storm: amqpstorm.Channel, name: str) -> None:
    storm.queue.declare(name, exclusive=True)
    for body in ("one", "two", "three"):
        storm.basic.publish(body, name)
    first = _get(storm, name)
    first.reject(requeue=True)
    again = _get(storm, name)
    assert (again.body, again.redelivered) == ("one", True)
    again.nack(requeue=False)
    assert storm.queue.purge(name) == {"message_count": 2}
    assert storm.basic.get(name) is None
    assert storm.queue.delete(name) == {"message_count": 0}


def test_transactions_commit_and_roll_back(storm: amqpstorm.Channel, name: str) -> None:
    storm.queue.declare(name, exclusive=True)
    with storm.tx:
        storm.basic.publish("kept", name)
        assert storm.basic.get(name) is None
    with pytest.raises(RuntimeError), storm.tx:
        storm.basic.publish("forgotten", name)
        raise RuntimeError("something went wrong")
    storm.tx.select()
    message = _get(storm, name)
    assert message.body == "kept"
    message.ack()
    storm.tx.commit()
    assert storm.queue.declare(name, passive=True)["message_count"] == 0


def test_an_unroutable_mandatory_message_is_an_error(storm: amqpstorm.Channel, name: str) -> None:
    storm.confirm_deliveries()
    with pytest.raises(amqpstorm.AMQPMessageError) as raised:
        storm.basic.publish("lost", name, mandatory=True)
    assert raised.value.error_code == 312


def test_errors_carry_the_code_and_text_of_the_broker(storm: amqpstorm.Channel, name: str) -> None:
    with pytest.raises(amqpstorm.AMQPChannelError) as raised:
        storm.queue.declare(name, passive=True)
    assert raised.value.error_code == 404
    assert f"NOT_FOUND - no queue '{name}' in vhost '/'" in str(raised.value)
