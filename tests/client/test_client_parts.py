"""Parts of the client core, each against a model: confirms, batched acks, reconnecting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.client.ack_batch import AckBatch
from mirrormq.client.publisher_confirms import ConfirmCounter, UnconfirmedMessages
from mirrormq.client.reconnect_policy import Attempt, ReconnectPolicy
from mirrormq.wire import methods

confirms = st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=40)


@given(confirms)
def test_each_message_is_settled_once(stream: list[tuple[int, bool]]) -> None:
    counter, messages = ConfirmCounter(), UnconfirmedMessages[int]()
    messages.extend(list(range(1, 31)))
    settled: set[int] = set()
    for tag, multiple in stream:
        fresh = (set(range(1, tag + 1)) if multiple else {tag}) - settled
        settled |= fresh
        assert counter.settle(tag, multiple) == len(fresh)
        assert messages.settle(tag, multiple) == sorted(fresh)
        assert len(messages) == 30 - len(settled)
    assert set(range(1, counter.floor + 1)) <= settled and counter.floor + 1 not in settled


def test_unconfirmed_messages_are_numbered_anew() -> None:
    messages = UnconfirmedMessages[str]()
    assert [messages.add(item) for item in "abcd"] == [1, 2, 3, 4]
    assert messages.settle(2, False) == ["b"]
    assert messages.restart() == ["a", "c", "d"]
    assert messages.settle(2, True) == ["a", "c"]
    assert messages.add("e") == 4


class BrokerChannel:
    """Unacknowledged deliveries as RabbitMQ keeps them; a delivery that is not among them is an error 406."""

    def __init__(self) -> None:
        self.unacked: list[int] = []
        self.acked: set[int] = set()
        self.nacked: set[int] = set()

    def take(self, frames: bytes) -> int:
        count = 0
        while frames:
            size = 8 + int.from_bytes(frames[3:7], "big")
            method = methods.decode_method(frames[7 : size - 1])
            assert isinstance(method, methods.BasicAck | methods.BasicNack)
            assert method.delivery_tag in self.unacked, "406 unknown delivery tag"
            tags = [tag for tag in self.unacked if tag == method.delivery_tag]
            if method.multiple:
                tags = [tag for tag in self.unacked if tag <= method.delivery_tag]
            self.unacked = [tag for tag in self.unacked if tag not in tags]
            (self.acked if isinstance(method, methods.BasicAck) else self.nacked).update(tags)
            frames = frames[size:]
            count += 1
        return count


steps = st.lists(
    st.one_of(st.just("deliver"), st.just("send"), st.tuples(st.booleans(), st.integers(1, 20))), max_size=60
)


@given(steps)
def test_batched_acks_settle_what_was_settled_and_nothing_else(
    script: list[str | tuple[bool, int]],
) -> None:
    batch, broker = AckBatch(), BrokerChannel()
    acked: set[int] = set()
    nacked: set[int] = set()
    last = 0
    for step in [*script, "send"]:
        if step == "deliver":
            last += 1
            broker.unacked.append(last)
            batch.delivered([last])
        elif step == "send":
            broker.take(batch.take_frames(1))
            assert (broker.acked, broker.nacked) == (acked, nacked)
        elif isinstance(step, tuple) and step[1] <= last and step[1] not in acked | nacked:
            (acked if step[0] else nacked).add(step[1])
            batch.ack(step[1]) if step[0] else batch.nack(step[1], requeue=True)
    assert batch.open_count == last - len(acked | nacked)


def test_acks_in_order_are_one_frame() -> None:
    batch, broker = AckBatch(), BrokerChannel()
    for tag in range(1, 1001):
        broker.unacked.append(tag)
        batch.delivered([tag])
        batch.ack(tag)
    assert broker.take(batch.take_frames(1)) == 1
    assert not broker.unacked


def test_uris_are_tried_in_order_and_then_backed_off_from() -> None:
    policy = ReconnectPolicy(3, first_wait_s=1.0, wait_max_s=5.0)
    attempts = [policy.failed() for _ in range(12)]
    assert [attempt.address for attempt in attempts] == [1, 2, 0] * 4
    assert [attempt.wait_s for attempt in attempts] == [0, 0, 1, 0, 0, 2, 0, 0, 4, 0, 0, 5]
    policy.succeeded()
    assert [policy.failed() for _ in range(3)] == [Attempt(1, 0), Attempt(2, 0), Attempt(0, 1)]


def test_a_permanent_failure_waits_long_at_once() -> None:
    policy = ReconnectPolicy(1, first_wait_s=1.0, wait_max_s=60.0)
    assert policy.failed(permanent=True).wait_s == 60.0
    assert policy.failed().wait_s == 2.0


@given(st.floats(0, 1, exclude_max=True))
def test_chance_only_shortens_a_pause(chance: float) -> None:
    policy = ReconnectPolicy(1, first_wait_s=10.0, wait_max_s=60.0, random=lambda: chance)
    assert 8.0 <= policy.failed().wait_s <= 10.0


def test_no_uri_is_no_policy() -> None:
    with pytest.raises(ValueError, match="at least one URI"):
        ReconnectPolicy(0, 1.0, 1.0)
