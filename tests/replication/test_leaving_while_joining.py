"""Synchronisation of a mirror while consumers remove messages: removed messages are not loaded."""

from __future__ import annotations

from mirrormq.metadata.ring_view import View
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.replication.ring_messages import SyncBatch, SyncRequest
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.wire.content import build_frames
from tests.replication.world import PERSISTENT, PUBLISH, QUEUE_ID, Node, World


def test_a_message_acknowledged_in_the_same_turn_is_not_sent_to_a_mirror() -> None:
    node = Node(World(1), "a")
    node.start(View(1, 1, ("a", "b"), frozenset({"a"})))
    replica = node.replica
    assert replica is not None and replica.backing is not None
    envelope = make_envelope(PUBLISH, PERSISTENT)
    bodies = [b"one", b"two", b"three"]
    replica.backing.publish([Message(envelope, build_frames(1, PERSISTENT, body, 0)) for body in bodies])
    replica.take(0, reporting=False, idle=False)
    replica.receive("b", SyncRequest(QUEUE_ID, 1, 1, 5, replica.ring.received, SequenceSet().pack()))
    replica.backing.acknowledge(replica.backing.fetch(2))
    sent = replica.take(0, reporting=False, idle=False).sends
    brought = [batch for _, batch in sent if isinstance(batch, SyncBatch) and batch.messages]
    assert [len(append.contents) for batch in brought for append in batch.messages] == [1]
