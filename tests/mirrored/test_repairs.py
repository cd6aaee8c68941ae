"""A message that is damaged on one node's disk is fetched from another node, or kept and never served."""

from __future__ import annotations

import pytest

from mirrormq.broker.broker_limits import DEFAULT_LIMITS, BrokerLimits
from mirrormq.leases.range_sources import mirror_source
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.ranges import range_protocol
from mirrormq.ranges.error_reasons import TRY_AGAIN
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.range_request import RequestValues
from mirrormq.remote.remote_messages import FetchMessages
from mirrormq.replication import record_repair
from mirrormq.storage.journal_errors import DamagedMessages
from tests.harness import Node, deliveries
from tests.mirrored.cluster import Cluster, Member

COUNT = 30


def garble(member: Member, number: int, queue: str = "q") -> int:
    """Damage a message on one node's disk; gives its sequence."""
    store = member.journal.queue(member.metadata.state.queues["/", queue].queue_id)
    sequence = store.held()[number]
    position = store.table.get(sequence) or store.paged.get(sequence)
    path = member.journal.segments.path(position >> 32)
    member.disk.garble(path, (position & 0xFFFFFFFF) + 45, 2)
    with pytest.raises(DamagedMessages):
        store.load([sequence])
    return sequence


def warnings(member: Member) -> list[str]:
    return [log_entry.text for log_entry in member.broker.log_entries.take() if log_entry.level == "warning"]


def bodies() -> list[bytes]:
    return [b"message %d" % number for number in range(COUNT)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three nodes; the master keeps few messages in memory."""
    monkeypatch.setattr(
        Node,
        "limits",
        BrokerLimits(queues=QueueLimits(head_stored_messages=4, head_messages=4, page_messages=4)),
    )
    made = Cluster("a", "b", "c")
    made.mirror_all()
    client = made.connect("a")
    client.declare("q")
    made.settle()
    for body in bodies():
        client.publish("q", body, persistent=True)
    made.settle()
    for member in made.living():
        assert member.stored("q") == bodies()
        member.journal.writer.seal()
    return made


def consumed(cluster: Cluster, node: str) -> list[bytes]:
    client = cluster.connect(node)
    return [body for _, body, _ in [*client.consume("q"), *deliveries(client.read())]]


@pytest.mark.parametrize("node", ["a", "b"])
def test_damage_that_was_read_is_repaired_from_another_node(cluster: Cluster, node: str) -> None:
    member = cluster[node]
    garble(member, 20)
    cluster.settle()
    assert member.stored("q") == bodies()
    assert (member.journal.damage.found_total, member.journal.damage.repaired_total) == (1, 1)
    assert any("replaced by good copies" in line for line in warnings(member))


def test_damage_that_scrubbing_finds_is_repaired_and_survives_a_restart(cluster: Cluster) -> None:
    member = cluster["b"]
    store = member.journal.queue(member.metadata.state.queues["/", "q"].queue_id)
    position = store.table.get(store.held()[11])
    member.disk.garble(member.journal.segments.path(position >> 32), (position & 0xFFFFFFFF) + 45, 2)
    member.journal.scrubber.start()
    while member.journal.scrubber.step(1000):
        pass
    cluster.settle()
    assert member.journal.damage.repaired_total == 1
    assert member.stored("q") == bodies()


def test_a_consumer_gets_a_repaired_message_in_its_place_or_late(cluster: Cluster) -> None:
    store = cluster["a"].journal.queue(cluster["a"].metadata.state.queues["/", "q"].queue_id)
    position = store.table.get(store.held()[20])
    cluster["a"].disk.garble(
        cluster["a"].journal.segments.path(position >> 32), (position & 0xFFFFFFFF) + 45, 2
    )
    found = consumed(cluster, "a")
    assert sorted(found) == sorted(bodies()), "delivery met the damage, and the message came afterwards"


def test_a_message_without_a_good_copy_is_kept_counted_and_not_served(cluster: Cluster) -> None:
    sequences = {garble(cluster[name], 20) for name in ("a", "b", "c")}
    cluster.settle()
    assert consumed(cluster, "a") == [body for body in bodies() if body != b"message 20"]
    master = cluster["a"]
    assert master.journal.damage.pending_count == 1 and master.journal.damage.repaired_total == 0
    assert sum("have no good copy" in line for line in warnings(master)) == 1
    store = master.journal.queue(master.metadata.state.queues["/", "q"].queue_id)
    assert all(store.has(sequence) for sequence in sequences)


def test_a_node_asks_again_when_the_others_could_not_be_reached(cluster: Cluster) -> None:
    cluster.cut("a", "b")
    cluster.cut("a", "c")
    garble(cluster["a"], 20)
    for _ in range(3):
        cluster["a"].turn()
    assert cluster["a"].journal.damage.pending_count == 1
    cluster.join("a", "b")
    cluster.join("a", "c")
    cluster.settle()
    cluster.advance(record_repair.RETRY_MS)
    assert cluster["a"].journal.damage.pending_count == 0


def test_a_request_goes_out_as_soon_as_a_full_link_has_room(cluster: Cluster) -> None:
    master = cluster["a"]
    queue_id = master.metadata.state.queues["/", "q"].queue_id
    cluster.held |= {("b", "a"), ("c", "a")}
    for stream in master.broker.remote.linked.values():
        stream.put(FetchMessages(queue_id, []), 2 * DEFAULT_LIMITS.remote.stream_bytes_max)
        assert not stream.writable
    garble(master, 20)
    cluster.settle()
    assert master.journal.damage.pending_count == 1
    assert not any("no good copy" in line for line in warnings(master))
    cluster.held.clear()
    cluster.settle()
    assert master.journal.damage.pending_count == 0


def read_range(cluster: Cluster, node: str) -> list[bytes] | str:
    """Read the whole queue from a mirror, as Spark does; gives the bodies, or the reason of a refusal."""
    broker, replies = cluster[node].broker, list[list[bytes] | str]()
    queue_id = broker.metadata.state.queues["/", "q"].queue_id
    copy, store = broker.replica_manager.replicas[queue_id].copy, broker.journal.queue(queue_id)
    assert copy is not None
    broker.range_requests.reads.begin(
        "reader",
        mirror_source(copy, store, lambda: True),
        RequestValues(range_protocol.read("q", 0, copy.known_up_to + 1, 1 << 20), b""),
        lambda given: replies.append([bytes(row.body) for row in RangeBatch(given.body)]),
        lambda error: replies.append(error.reason),
        1 << 20,
    )
    cluster.settle()
    (reply,) = replies
    return reply


def test_a_range_read_waits_for_the_repair_of_a_message(cluster: Cluster) -> None:
    garble(cluster["b"], 20)
    assert read_range(cluster, "b") == TRY_AGAIN, "a lease would settle a message that its reader never got"
    assert read_range(cluster, "b") == bodies()


def test_a_range_read_leaves_out_messages_without_a_good_copy(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_repair, "FETCH_MESSAGES_MAX", 2)
    lost = range(20, 25)
    for name in ("a", "b", "c"):
        for number in lost:
            garble(cluster[name], number)
    garble(cluster["b"], 26)
    cluster.settle()
    left = [body for number, body in enumerate(bodies()) if number not in lost]
    assert read_range(cluster, "b") == left, "the last one is repaired, although five before it cannot be"
