"""Messages with thousands of headers: their publisher waits, other clients do not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.brokers.mirrormq import MirrorMQ
from tests.harness import Node
from tests.hostile.bystander import beside
from tests.hostile.raw import RawClient, ready_client
from tests.waiting import until

MESSAGES = 40
FRAME_MAX = 131_072
GAP_S_MAX = 0.7
"""Work of the node for which a bystander may wait. 40 messages at once took 2 s, one takes 0.05 to 0.15 s."""

LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
SURPLUS, EXPIRED = {"x-max-length": 0, **LETTERS}, {"x-message-ttl": 0, **LETTERS}


def large(number: int, exchange: str, key: str, *, pieces: int = 1) -> bytes:
    """A publish with 120 KB of headers; its body in one frame or two."""
    headers = table_of({f"key {index} of {number}": "value" for index in range(4400)})
    properties = encode_properties(BasicProperties(headers=headers))
    publish = method_frame(1, methods.encode_basic_publish(exchange, key))
    whole = build_frames(1, properties, b"ab", FRAME_MAX)
    if pieces == 1:
        return publish + whole
    body = b"\x03\x00\x01\x00\x00\x00\x01%b\xce"
    return publish + whole[: -len(body)] + body % b"a" + body % b"b"


def declare(client: RawClient, name: str, arguments: dict[str, object]) -> None:
    for queue, given in (("letters", {}), (name, arguments)):
        client.method(1, methods.encode_queue_declare(queue, arguments=table_of(given)))
        client.expect("QueueDeclareOk")


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("arguments", [{}, SURPLUS, EXPIRED], ids=["kept", "surplus", "expired"])
def test_other_clients_go_on(node: MirrorMQ, arguments: dict[str, object], pieces: int) -> None:
    name = f"headers {len(arguments)} {'x-max-length' in arguments}"
    data = b"".join(large(number, "", name, pieces=pieces) for number in range(MESSAGES))
    goal = "letters" if arguments else name
    with ready_client(node.amqp_port) as client:
        declare(client, name, arguments)
        with beside(node) as bystander:
            client.send(data)

            def arrived() -> bool:
                client.method(1, methods.encode_queue_declare(goal, passive=True))
                return bool(client.expect("QueueDeclareOk").message_count == MESSAGES)

            until(arrived)
        assert bystander.longest_gap_s < GAP_S_MAX
        for queue in {name, "letters"}:
            client.method(1, methods.encode_queue_delete(queue))
            client.expect("QueueDeleteOk")


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_client_gets_a_few_of_them_done_in_a_turn(pieces: int) -> None:
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("q"))
    client.connection.receive(b"".join(large(number, "", "q", pieces=pieces) for number in range(MESSAGES)))
    arrived = [node.counts("q")[0]]
    while arrived[-1] < MESSAGES:
        node.turn()
        client.connection.resume()
        arrived.append(node.counts("q")[0])
        assert len(arrived) < 10 * MESSAGES, "the rest is forgotten"
    assert arrived[0] <= 4 and max(after - before for before, after in pairwise(arrived)) <= 4


@pytest.mark.parametrize("arguments", [SURPLUS, EXPIRED], ids=["surplus", "expired"])
def test_a_turn_publishes_a_few_of_them_as_dead_letters(arguments: dict[str, object]) -> None:
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("letters"))
    client.call(methods.encode_queue_declare("q", arguments=table_of(arguments)))
    arrived, turns = [0], 0
    client.connection.receive(b"".join(large(number, "", "q") for number in range(MESSAGES)))
    while arrived[-1] < MESSAGES:
        node.broker.turn()
        client.connection.resume()
        arrived.append(node.counts("letters")[0])
        turns += 1
        assert turns < 10 * MESSAGES, "the rest of the dead letters is forgotten"
    assert max(after - before for before, after in pairwise(arrived)) <= 4
    bodies = [client.get("letters", no_ack=True) for _ in range(MESSAGES)]
    first_keys = [next(iter(message.properties.headers)) for message in bodies]  # type: ignore[union-attr,arg-type]
    assert first_keys == [f"key 0 of {number}" for number in range(MESSAGES)], "in order"


def test_ordinary_dead_letters_are_published_at_once() -> None:
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("letters"))
    client.call(methods.encode_queue_declare("q", arguments=table_of(SURPLUS)))
    client.publish("q", *[b"x"] * 1000, headers=table_of({"key": "value"}))
    assert node.counts("letters")[0] == 1000
