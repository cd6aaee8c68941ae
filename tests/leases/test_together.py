"""Requests about many queues in one write of a client: the node syncs its metadata a few times for all."""

from __future__ import annotations

import pytest

from mirrormq.ranges import range_protocol
from mirrormq.storage.simulated_disk import SimulatedFile
from mirrormq.wire import methods
from mirrormq.wire.fields import Table, plain
from tests.harness import Client, Node

QUEUES = [f"q{number}" for number in range(50)]
SYNCS_MAX = 6
"""Syncs of journal and metadata for one request of each queue: its messages, its record, what it forgets."""


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each sync of any file of the node."""
    found: list[str] = []
    sync = SimulatedFile.sync

    def counted(self: SimulatedFile) -> None:
        found.append("sync")
        sync(self)

    monkeypatch.setattr(SimulatedFile, "sync", counted)
    return found


def ask_all(client: Client, requests: list[Table]) -> list[dict[str, object]]:
    for number, headers in enumerate(requests):
        client.publish(
            range_protocol.ROUTING_KEY, b"", headers=headers, reply_to=range_protocol.REPLY_QUEUE,
            correlation_id=str(number),
        )  # fmt: skip
    replies = [each.properties for each in client.read() if each.properties is not None]
    assert [(each.correlation_id, each.type_) for each in replies] == [
        (str(number), "ok") for number in range(len(requests))
    ]
    return [plain(each.headers or {}) for each in replies]


def test_takes_and_settlements_of_many_queues_share_their_syncs(syncs: list[str]) -> None:
    node = Node()
    client = node.connect()
    client.call(methods.encode_basic_consume(range_protocol.REPLY_QUEUE, no_ack=True))
    for queue in QUEUES:
        client.call(methods.encode_queue_declare(queue, durable=True))
        client.publish(queue, b"a", b"b", persistent=True)
    client.read()
    syncs.clear()
    taken = ask_all(client, [range_protocol.take(queue, "job", 1, 10) for queue in QUEUES])
    assert [each["count"] for each in taken] == [2] * 50
    assert 0 < len(syncs) <= SYNCS_MAX
    syncs.clear()
    settled = ask_all(client, [range_protocol.settle(queue, "job", number=1) for queue in QUEUES])
    assert [each["count"] for each in settled] == [2] * 50
    assert 0 < len(syncs) <= SYNCS_MAX
    node.restart("power")
    assert [node.counts(queue) for queue in QUEUES] == [(0, 0)] * 50
