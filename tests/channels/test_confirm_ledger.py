"""Confirm ledger: reports every publish exactly once, correctly, when its last queue has replied.

The client of the model behaves like a client: an ack or nack settles its number, and with `multiple` every
open number up to it.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirrormq.channels.confirm_ledger import ConfirmLedger
from mirrormq.wire.methods import BasicAck, BasicNack, decode_method


class LedgerMachine(RuleBasedStateMachine):
    """Ledger with the expected state of each publish."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = ConfirmLedger()
        self.waiting: dict[int, int] = {}
        """Number of queues that have not replied, by publish number."""
        self.refused: set[int] = set()
        self.published = 0
        self.reported: dict[int, str] = {}
        self.methods = 0

    @rule(count=st.integers(1, 6), queues=st.integers(0, 3))
    def publish(self, count: int, queues: int) -> None:
        first = self.ledger.take_numbers(count, queues)
        assert first == self.published + 1
        self.published += count
        for number in range(first, first + count):
            self.waiting[number] = queues

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data(), length=st.integers(1, 6))
    def confirm_a_range(self, data: st.DataObject, length: int) -> None:
        open_numbers = [number for number, queues in self.waiting.items() if queues]
        first = last = data.draw(st.sampled_from(open_numbers))
        while last - first + 1 < length and self.waiting.get(last + 1):
            last += 1
        self.ledger.confirmed(first, last)
        for number in range(first, last + 1):
            self.waiting[number] -= 1

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([number for number, queues in self.waiting.items() if queues]))
        self.ledger.refused(number)
        self.refused.add(number)
        self.waiting[number] -= 1

    @rule()
    def report(self) -> None:
        done = {number for number, queues in self.waiting.items() if not queues}
        news, before = done - set(self.reported), self.methods
        self.ledger.report(self.receive)
        assert (self.methods > before) == bool(news)
        assert set(self.reported) == done, "everything that is finished is told, and nothing else"
        for number, verdict in self.reported.items():
            assert verdict == ("nack" if number in self.refused else "ack")

    def receive(self, payload: bytes) -> None:
        """Process a method as a client does."""
        self.methods += 1
        method = decode_method(payload)
        assert isinstance(method, BasicAck | BasicNack)
        verdict = "ack" if isinstance(method, BasicAck) else "nack"
        numbers = [method.delivery_tag]
        if method.multiple:
            numbers = [number for number in range(1, method.delivery_tag + 1) if number not in self.reported]
        assert numbers
        for number in numbers:
            assert 1 <= number <= self.published
            assert number not in self.reported, f"{number} was told twice"
            assert not self.waiting[number], f"{number} is not finished"
            self.reported[number] = verdict

    @invariant()
    def nothing_is_told_between_reports(self) -> None:
        assert all(not self.waiting[number] for number in self.reported)


TestLedger = LedgerMachine.TestCase


@given(counts=st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_a_steady_stream_is_confirmed_with_one_method(counts: list[int]) -> None:
    ledger = ConfirmLedger()
    sent: list[bytes] = []
    for count in counts:
        first = ledger.take_numbers(count, 1)
        ledger.confirmed(first, first + count - 1)
    ledger.report(sent.append)
    assert [decode_method(payload) for payload in sent] == [BasicAck(sum(counts), sum(counts) > 1)]
    assert ledger.open_count == 0


def test_a_late_confirm_is_reported_alone_and_skipped_later() -> None:
    ledger = ConfirmLedger()
    sent: list[bytes] = []
    ledger.take_numbers(5, 1)
    ledger.confirmed(3, 3)
    ledger.report(sent.append)
    ledger.confirmed(1, 2)
    ledger.confirmed(4, 5)
    ledger.report(sent.append)
    methods = [decode_method(payload) for payload in sent]
    assert methods[0] == BasicAck(3, False)
    assert methods[1] == BasicAck(2, True)
    assert methods[2:] == [BasicAck(5, True)]
