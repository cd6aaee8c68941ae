"""Delivery ledger: verdicts follow from the extents of queues between traces."""

from __future__ import annotations

import json
from pathlib import Path

from mirrormq.replication import synchronisation
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.spark.audit.ledger import (
    EPOCH_BITS,
    GAP,
    GONE,
    JUDGED,
    LEASED,
    MARKS_MAX,
    TAKEN_OVER,
    WHOLE,
    AuditTick,
    DeliveryLedger,
    TickVerdict,
)
from mirrormq.spark.jobs.audit_state import AuditState

GRACE_MS = 2000


def tick(place: int, second: int, *said: object, leased: tuple[str, ...] = ()) -> AuditTick:
    queues = {"q": None if said == (None,) else list(said)} if said else {}
    return AuditTick(place, second * 1000, second * 1000, queues, leased)


def reported(ledger: DeliveryLedger, *ticks: AuditTick) -> list[TickVerdict]:
    return [verdict for each in ticks for verdict in ledger.advance(each)]


def test_a_message_that_left_is_judged_a_grace_time_later() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    # At second 12 the queue's next number is 50; what was traced until second 10 (place 100) is below it.
    assert reported(ledger, tick(100, 10), tick(110, 11), tick(120, 12, 30, 50, 7, "a")) == []
    assert reported(ledger, tick(130, 13, 49, 60, 7, "a")) == [], "number 49 is still there"
    assert reported(ledger, tick(140, 14, 50, 60, 7, "a"), tick(150, 15, 50, 60, 7, "a")) == []
    assert reported(ledger, tick(160, 16, 50, 60, 7, "a")) == [TickVerdict("q", 100, JUDGED)]
    assert reported(ledger, tick(170, 17, 50, 60, 7, "a")) == [], "once"


def test_a_queue_that_is_deleted_takes_its_messages_along() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    ticks = [tick(100, 10), tick(120, 12, 30, 50, 7, "a"), tick(130, 13, None), tick(150, 15)]
    assert reported(ledger, *ticks) == [TickVerdict("q", 100, GONE)]


def test_a_queue_that_was_declared_again_is_another_one() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    ticks = [tick(100, 10), tick(120, 12, 30, 50, 7, "a"), tick(130, 13, 80, 80, 8, "a"), tick(150, 15)]
    assert reported(ledger, *ticks) == [TickVerdict("q", 100, GONE)]


def test_a_queue_under_a_lease_is_not_judged() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    ticks = [
        tick(100, 10, leased=("q",)),
        tick(120, 12, 5, 5, 7, "a"),
        tick(130, 13, 5, 5, 7, "a"),
        tick(150, 15),
    ]
    assert reported(ledger, *ticks) == [TickVerdict("q", 100, LEASED)]


def test_missing_traces_are_noticed() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    assert ledger.seen(5, 9, 5) == WHOLE
    assert ledger.seen(10, 10, 1) == WHOLE
    assert ledger.seen(12, 20, 9) == GAP, "11 is missing"
    assert ledger.blind == 20
    assert ledger.seen(21, 30, 10) == WHOLE
    assert ledger.seen(31, 40, 9) == GAP, "one of them is missing"
    assert ledger.blind == 40


def test_another_master_of_the_traces_is_distinguished_from_missing_ones() -> None:
    assert EPOCH_BITS == synchronisation.EPOCH_BITS
    ledger = DeliveryLedger(GRACE_MS)
    assert ledger.seen(5, 9, 5) == WHOLE
    second, third = first_sequence(2), first_sequence(3)
    assert ledger.seen(second, second + 9, 10) == TAKEN_OVER
    assert ledger.blind == second + 9, "the last traces of the old master may be missing"
    assert ledger.seen(second + 10, second + 19, 10) == WHOLE
    assert ledger.blind == second + 9
    assert ledger.seen(third + 1, third + 3, 3) == GAP, "the first trace of the new master is missing"
    book = AuditState.new(GRACE_MS)
    for first, count in ((1, 4), (second, 2), (second + 3, 1)):
        book.seen(first, first + count - 1, count)
    assert (book.takeovers, book.gaps, book.traces) == (1, 1, 7)


def test_places_that_are_waited_for_are_thinned_out() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    for second in range(10 * MARKS_MAX):
        ledger.advance(tick(second * 10, second, 0, second, 7, "a"))
        assert len(ledger.queues["q"].marks) <= MARKS_MAX
    places = [place for place, _ in ledger.queues["q"].marks]
    assert places == sorted(places)
    assert places[-1] == (10 * MARKS_MAX - 1 - 2) * 10


def test_a_change_of_master_is_counted_and_all_of_it_can_be_written_down() -> None:
    ledger = DeliveryLedger(GRACE_MS)
    reported(ledger, tick(100, 10, 0, 1, 7, "a"), tick(110, 11, 0, 1, 7, "b"), tick(120, 12, 0, 1, 7, "b"))
    assert ledger.queues["q"].failovers == 1
    assert DeliveryLedger.of(json.loads(json.dumps(ledger.as_dict()))).as_dict() == ledger.as_dict()


def test_ticks_that_are_not_traced_say_that_tracing_is_off() -> None:
    book = AuditState.new(GRACE_MS)

    def at(place: int, second: int, echo: bool) -> tuple[int, bool, dict[str, int]]:
        return place, echo, {"time_ms": second * 1000, "asked_ms": second * 1000}

    book.seen(1, 4, 4)
    book.add_ticks([at(1, 10, True), at(2, 10, False), at(3, 11, False), at(4, 11, True)])
    book.seen(5, 6, 2)
    book.add_ticks([at(5, 13, False), at(6, 15, False)])
    assert (book.gaps, book.ledger.blind) == (1, 6), "the tick of second 13 was not traced"
    assert book.echoes == 2


def test_findings_are_sentences() -> None:
    book = AuditState.new(GRACE_MS)
    book.ledger.advance(tick(100, 10, 0, 1, 7, "a"))
    book.ledger.advance(tick(110, 11, 0, 1, 7, "b"))
    counts = {"q": {"published": 3, "ok": 1, "lost": 2}, "r": {"published": 1, "ok": 1, "unflagged": 1}}
    lost, unflagged = book.add(counts, {"s": {"out": 2, "waiting": 5}}, {"q": ["one", "two"]})
    went = "2 messages of queue 'q' published and not delivered"
    assert lost.sentence == f"{went} (its master changed meanwhile), such as one, two"
    assert unflagged.sentence == "1 delivery of queue 'r' repeated without the flag redelivered"
    assert book.verdict == "Messages: 2 published and not delivered, 1 repeated without the flag redelivered"
    assert (book.totals["out"], book.totals["waiting"]) == (2, 5)


def test_an_audit_passes_only_if_something_was_published() -> None:
    book = AuditState.new(GRACE_MS)
    assert (book.passed, book.verdict) == (
        False,
        "No verdict: no message was published to a matching queue",
    )
    book.add({"q": {"published": 3, "ok": 3}}, {"q": {"out": 2, "waiting": 1}}, {})
    assert (book.passed, book.verdict) == (True, "No message was lost: 5 delivered, 1 pending")
    book.add({}, {"q": {"out": 3, "waiting": 0}}, {})
    assert book.queues["q"] == dict.fromkeys(book.totals, 0) | {"published": 3, "ok": 3, "out": 3}


def test_the_state_after_a_batch_is_read_back(tmp_path: Path) -> None:
    book = AuditState.new(GRACE_MS)
    book.add_ticks([(1, False, {"time_ms": 10_000, "asked_ms": 10_000, "queues": {"q": [1, 5, 7, "a"]}})])
    book.verdicts = [TickVerdict("q", 1, JUDGED)]
    book.add({"q": {"published": 2, "ok": 1, "lost": 1}}, {}, {"q": ["one"]})
    book.save(tmp_path, 3)
    again = AuditState.load(tmp_path, 3)
    assert again.verdicts == [], "verdicts belong to the batch that made them"
    assert again.as_dict() == book.as_dict()
