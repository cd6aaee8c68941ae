"""Unacked: settles exactly the deliveries that a client names, compared with a linear search."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirrormq.channels.unacked import Unacked
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.wire.methods import encode_basic_publish


class UnackedMachine(RuleBasedStateMachine):
    """Compare with a list of unacknowledged tags."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        self.message = Message(make_envelope(encode_basic_publish("", "queue"), b"\x00\x00"), b"", 0, 0)
        self.out: list[int] = []
        self.settled: list[list[Any]] = []
        self.last_tag = 0

    def tags(self, deliveries: list[Any] | None) -> list[int] | None:
        return None if deliveries is None else [delivery[4] for delivery in deliveries]

    @rule(count=st.integers(1, 5), skip=st.integers(0, 2))
    def deliver(self, count: int, skip: int) -> None:
        self.last_tag += skip  # deliveries that need no acknowledgement use up tags too
        for _ in range(count):
            self.last_tag += 1
            self.out.append(self.last_tag)
            delivery: Any = (self.message, None, None, self.last_tag * 10, self.last_tag)
            self.unacked.by_tag[self.last_tag] = delivery

    @rule(tag=st.integers(0, 40))
    def take_one(self, tag: int) -> None:
        expected = [tag] if tag in self.out else None
        self.check_taken(self.unacked.take(tag, False), expected)

    @rule(tag=st.integers(1, 40))
    def take_up_to(self, tag: int) -> None:
        expected = [number for number in self.out if number <= tag] if tag in self.out else None
        self.check_taken(self.unacked.take(tag, True), expected)

    @rule()
    def take_up_to_zero_is_all(self) -> None:
        self.check_taken(self.unacked.take(0, True), list(self.out))

    @rule()
    def take_all(self) -> None:
        self.check_taken(self.unacked.take_all(), list(self.out))

    def check_taken(self, taken: list[Any] | None, expected: list[int] | None) -> None:
        assert self.tags(taken) == expected
        if taken:
            self.settled.append(taken)
            self.out = [number for number in self.out if number not in (expected or [])]

    @precondition(lambda self: self.settled)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        deliveries = self.settled.pop(data.draw(st.integers(0, len(self.settled) - 1)))
        self.unacked.put_back(deliveries)
        self.out = sorted(self.out + [delivery[4] for delivery in deliveries])

    @invariant()
    def holds_what_is_out(self) -> None:
        assert sorted(self.unacked.by_tag) == self.out
        assert len(self.unacked) == len(self.out)
        assert self.unacked.oldest_ms == (self.out[0] * 10 if self.out else None)


TestUnacked = UnackedMachine.TestCase
