"""Fair shares under basic.qos with `global`: each consumer gets at least half of an equal share."""

from __future__ import annotations

from collections import Counter

import pytest

from mirrormq.wire import methods
from tests.harness import Client, Node

ACKS = 300


def consume_all(client: Client, queues: list[str], limit: int) -> None:
    for queue in dict.fromkeys(queues):
        client.call(methods.encode_queue_declare(queue))
        client.publish(queue, *[b"%d" % number for number in range(ACKS)])
    client.call(methods.encode_basic_qos(0, limit, global_=True))
    for number, queue in enumerate(queues):
        client.send(methods.encode_basic_consume(queue, f"consumer-{number}"))


def shares(client: Client, acknowledge_after: int) -> Counter[str]:
    """Count the deliveries of each consumer while the client acknowledges `ACKS` messages."""
    counts: Counter[str] = Counter()
    unacked: list[int] = []
    while counts.total() < ACKS:
        for received in client.read():
            if isinstance(received.method, methods.BasicDeliver):
                counts[received.method.consumer_tag] += 1
                unacked.append(received.method.delivery_tag)
        assert unacked, "no delivery although the channel holds nothing"
        while len(unacked) >= acknowledge_after:
            tags, unacked = unacked[:acknowledge_after], unacked[acknowledge_after:]
            client.send(methods.encode_basic_ack(tags[-1], acknowledge_after > 1))
    return counts


@pytest.mark.parametrize(("limit", "acknowledge_after"), [(1, 1), (3, 1), (10, 1), (10, 10)])
@pytest.mark.parametrize("queues", [["a", "b", "c"], ["a", "a"]], ids=["queues", "consumers of a queue"])
def test_no_consumer_gets_less_than_half_of_an_equal_share(
    queues: list[str], limit: int, acknowledge_after: int
) -> None:
    client = Node().connect()
    consume_all(client, queues, limit)
    counts = shares(client, acknowledge_after)
    assert len(counts) == len(queues)
    assert min(counts.values()) * 2 * len(queues) >= counts.total(), counts
