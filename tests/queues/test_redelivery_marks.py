"""Redelivery marks of a queue: messages that an earlier master may have delivered."""

from __future__ import annotations

from mirrormq import limits
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.queues.redelivery import RedeliveryMarks
from mirrormq.wire.methods import encode_basic_publish

ENVELOPE = make_envelope(encode_basic_publish("", "q"), b"\x00\x00")


def message(sequence: int) -> Message:
    made = Message(ENVELOPE, b"", body_size=0)
    made.sequence = sequence
    return made


def test_more_resent_spans_than_the_limit_leave_no_message_unmarked() -> None:
    """Between two spans of one node lie publishes of another one, so no two of them join."""
    marks = RedeliveryMarks()
    resent = [message(2 * number) for number in range(1, limits.SENT_AGAIN_RANGES_MAX + 10)]
    for each in resent:
        marks.published_before([each])
    marks.mark(resent)
    assert all(each.redelivered for each in resent)
    fresh = message(resent[-1].sequence - 1)
    marks.mark([fresh])
    assert not fresh.redelivered, "only the oldest spans are joined"
