"""Checkers: each one finds the violation that it is for, and none in a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrormq.metadata.link_records import Link
from mirrormq.simulator import checkers
from mirrormq.simulator.checkers import Checker, SimulatedCopy
from mirrormq.simulator.link_checkers import (
    LinksKeepOrder,
    LinksLoseOnlyByBreaks,
    LinksRepeatOnlyWhatComesAgain,
    OneRunner,
)
from mirrormq.simulator.pipeline_checkers import PublishIdsAreKeptOnce, ReadsAreRepeatable
from mirrormq.simulator.run_history import (
    AcknowledgedRecord,
    ConfirmedRecord,
    DeliveredRecord,
    LeasedRecord,
    ReadRecord,
    ReceivedRecord,
    Released,
    RunHistory,
    SentRecord,
)
from mirrormq.simulator.simulated_links import SimulatedShovel


class Ended:
    """World at the end of its run."""

    def __init__(self) -> None:
        self.history = RunHistory()
        self.held: list[SimulatedCopy] = []
        self.full: list[SimulatedCopy] = []
        self.states = {"a": b"x", "b": b"x"}
        self.open: list[str] = []
        self.strays: list[str] = []

    def copies(self) -> list[SimulatedCopy]:
        return self.held

    def filled(self) -> list[SimulatedCopy]:
        return self.full

    def metadata(self) -> dict[str, bytes]:
        return self.states

    def stranded(self) -> list[str]:
        return self.strays

    def unsettled(self) -> list[str]:
        return self.open

    def send(self, *numbers: int, persistent: bool = True) -> None:
        for number in numbers:
            self.history.sent[f"m{number}"] = SentRecord("p/1", number, "q", persistent, number)

    def confirm(self, *numbers: int) -> None:
        for number in numbers:
            self.history.confirmed[f"m{number}"] = ConfirmedRecord(f"m{number}", "a", number)

    def deliver(self, *numbers: int, redelivered: bool = False, subscription: int = 1) -> None:
        for number in numbers:
            at = len(self.history.delivered) * 10
            seen = DeliveredRecord(f"m{number}", "c", subscription, redelivered, False, False, "a", at)
            self.history.delivered.append(seen)

    def hold(self, *numbers: int, consumer: str) -> None:
        for number in numbers:
            held = DeliveredRecord(f"m{number}", consumer, 1, False, False, False, "a", number)
            self.history.held.append(held)

    def acknowledge(self, *numbers: int) -> None:
        for number in numbers:
            self.history.acknowledged[f"m{number}"] = AcknowledgedRecord(f"m{number}", "a", number)


def good() -> Ended:
    end = Ended()
    end.send(1, 2, 3)
    end.confirm(1, 2)
    end.deliver(1, 2)
    end.deliver(2, redelivered=True)
    end.acknowledge(1, 2)
    end.held = [SimulatedCopy("a", "q", True, ("m3",)), SimulatedCopy("b", "q", False, ("m3",))]
    return end


def lose(end: Ended) -> None:
    end.confirm(3)
    end.held = []


def invent(end: Ended) -> None:
    end.deliver(9)


def repeat(end: Ended) -> None:
    end.deliver(1)


def turn_round(end: Ended) -> None:
    end.send(4, 5)
    end.deliver(5, 4)


def overtake(end: Ended) -> None:
    end.send(4, 5)
    end.deliver(5)
    end.deliver(4, subscription=2)


def take_others(end: Ended) -> None:
    end.send(4, 5)
    end.send(6, persistent=False)
    for bodies in (("m4", "m6"), ("m4",), ("m5",)):
        end.history.leased.append(LeasedRecord("l", 1, bodies, 70))


def diverge(end: Ended) -> None:
    end.held[1] = SimulatedCopy("b", "q", False, ())


def reorder(end: Ended) -> None:
    end.held = [SimulatedCopy("a", "q", True, ("m1", "m2")), SimulatedCopy("b", "q", False, ("m2", "m1"))]


def fall_behind(end: Ended) -> None:
    end.full = [SimulatedCopy("a", "q", True, ("m3",), 7), SimulatedCopy("b", "q", False, ("m3",), 6)]


def date_differently(end: Ended) -> None:
    end.full = [
        SimulatedCopy("a", "q", True, ("m3", "m4"), 7, (10, 20)),
        SimulatedCopy("b", "q", False, ("m3", "m4"), 7, (10, 21)),
    ]


def lose_the_master(end: Ended) -> None:
    end.full = [SimulatedCopy("b", "q", False, ("m3",), 6)]


def fork(end: Ended) -> None:
    end.states["b"] = b"y"


def hand_out_what_is_held(end: Ended) -> None:
    end.hold(1, consumer="c")
    end.history.held.append(Released("c", 1))
    end.hold(1, 2, consumer="d")
    end.history.held.append(Released("d", 1, "m1"))
    end.hold(1, 2, consumer="e")


def strand(end: Ended) -> None:
    end.strays = ["1 messages of q have no consumer"]


def keep_twice(end: Ended) -> None:
    end.full = [
        SimulatedCopy("a", "q", True, ("m3", "m4", "m3")),
        SimulatedCopy("b", "other", True, ("m1",) * 2),
    ]


def read_differently(end: Ended) -> None:
    for sequence, body in ((7, "m3"), (8, "m4"), (7, "m3"), (7, "m4")):
        end.history.read.append(ReadRecord("q", 1, sequence, body, "a", 9))


ROUTE = [SimulatedShovel("on-confirm", "q", "to")]


def move(end: Ended, *numbers: int) -> None:
    """Let a link receive messages, and the destination hold them."""
    for number in numbers:
        end.history.received.append(ReceivedRecord(f"m{number}", "q-to", number))
    end.full = [SimulatedCopy("a", "to", True, tuple(f"m{number}" for number in numbers))]


def move_in_another_order(end: Ended) -> None:
    end.send(4, 5, 6)
    move(end, 4, 6, 4, 5)


def move_once_and_hold_twice(end: Ended) -> None:
    move(end, 1, 2)
    end.full = [SimulatedCopy("a", "to", True, ("m1", "m2", "m1"))]


def lose_on_a_calm_link(end: Ended) -> None:
    end.send(4, 5)
    end.confirm(4, 5)
    end.history.lossy = frozenset("q")
    end.history.broken_ms.append(4)


def hang(end: Ended) -> None:
    end.open = ["b does not serve"]


@pytest.mark.parametrize(
    ("checker", "harm", "says"),
    [
        (checkers.ConfirmedIsKept, lose, "confirmed and lost: 1 (m3)"),
        (checkers.NothingIsInvented, invent, "delivered and never sent: 1 (m9)"),
        (checkers.RedeliveryIsMarked, repeat, "delivered again without saying so: 1 (m1)"),
        (checkers.OrderIsKept, turn_round, "delivered out of order: 1 (m4)"),
        (
            lambda: checkers.OneIsActive(lambda queue: queue == "q"),
            overtake,
            "delivered beside the active consumer: 1 (m4)",
        ),
        (
            lambda: checkers.TakesAreRepeatable(parting=False),
            take_others,
            "take 1 of lease l got others at 70 ms than before",
        ),
        (checkers.MirrorsAreEqual, diverge, "b and a differ in queue q: 1 (m3)"),
        (checkers.MirrorsAreEqual, reorder, "b and a differ in queue q: the order"),
        (
            checkers.MirrorsAreEqual,
            fall_behind,
            "b received 6 operations on queue q, its master a 7",
        ),
        (
            checkers.MirrorsAreEqual,
            date_differently,
            "b and a differ in ingestion times of q: 1 (m4 (21 and 20 ms))",
        ),
        (
            checkers.MirrorsAreEqual,
            lose_the_master,
            "b has a copy of queue q without a master",
        ),
        (checkers.MetadataIsEqual, fork, "nodes differ in their metadata: a, b"),
        (checkers.EverythingSettles, hang, "b does not serve"),
        (
            lambda: checkers.HeldIsNotRedelivered(lambda queue: queue == "q"),
            hand_out_what_is_held,
            "delivered again while a client held it: 1 (m2 to e at 2, d had it)",
        ),
        (
            lambda: PublishIdsAreKeptOnce(lambda queue: queue == "q"),
            keep_twice,
            "kept more than once in q: 1 (m3)",
        ),
        (
            lambda: ReadsAreRepeatable(parting=False),
            read_differently,
            "read differently: 1 (7 of q is m3, and m4 at 9 ms)",
        ),
        (
            lambda: LinksKeepOrder(ROUTE, set(), parting=False),
            move_in_another_order,
            "moved to to out of order: 1 (m5)",
        ),
        (
            lambda: LinksRepeatOnlyWhatComesAgain(ROUTE, parting=False),
            move_once_and_hold_twice,
            "moved to to more often than received: 1 (m1)",
        ),
        (LinksLoseOnlyByBreaks, lose_on_a_calm_link, "lost by a link without a break: 1 (m5)"),
        (checkers.NothingIsStranded, strand, "1 messages of q have no consumer"),
    ],
)
def test_a_checker_finds_what_it_is_for(
    checker: Callable[[], Checker], harm: Callable[[Ended], None], says: str
) -> None:
    end = good()
    assert list(checker().finish(end)) == []
    harm(end)
    assert list(checker().finish(end)) == [says]


def test_a_transient_message_may_be_lost_with_every_node_that_had_it() -> None:
    end = good()
    end.send(8, persistent=False)
    end.confirm(8)
    assert list(checkers.ConfirmedIsKept().finish(end)) == []


def test_redelivery_without_a_mark_is_allowed_only_where_no_node_could_know() -> None:
    end = good()
    checker = checkers.RedeliveryIsMarked()
    checker.excuse(-1, 5)
    end.deliver(1)
    assert list(checker.finish(end)) == []
    end.deliver(1)
    assert list(checker.finish(end)), "the one before was after the excuse"


def test_the_order_of_two_deliveries_does_not_matter() -> None:
    end = Ended()
    end.send(1)
    end.deliver(1, redelivered=True)
    end.deliver(1)
    assert list(checkers.RedeliveryIsMarked().finish(end)) == []


def test_two_masters_in_one_epoch_are_found() -> None:
    checker = checkers.OneMaster()
    checker.acts("q", 1, "story", "a")
    checker.acts("q", 2, "story", "b")
    checker.acts("q", 2, "another", "a")
    assert list(checker.finish(good())) == []
    checker.acts("q", 2, "story", "a")
    assert list(checker.finish(good())) == ["b and a are both master of q in epoch 2"]


def test_two_runners_of_one_link_are_found() -> None:
    checker = OneRunner(parting=False)
    first, second = (Link("/", "shovel", "s", node, 1, epoch) for node, epoch in (("a", 1), ("b", 2)))
    checker.starts(first, "a", None)
    checker.starts(first, "a", None)
    checker.starts(second, "b", None)
    for now_ms in (0, checker.NOTICE_MS):
        checker.observe(now_ms, [(first, "a"), (second, "b")])
    assert not list(checker.finish(Ended())), "the former node has had no time to notice"
    checker.observe(checker.NOTICE_MS + 1, [(first, "a"), (second, "b"), (second, "b")])
    checker.starts(first, "c", None)
    assert list(checker.finish(Ended())) == [
        "b runs link s 2 times",
        "a still runs link s in epoch 1",
        "a and c both run link s in epoch 1",
    ]


def test_an_order_that_a_lingering_connection_explains_is_excused() -> None:
    end = good()
    move_in_another_order(end)
    end.history.crowded_ms["q"] = [(5, 6)]
    assert list(LinksKeepOrder(ROUTE, set(), parting=False).finish(end)) == []


def test_a_confirm_from_a_minority_is_found_once_it_had_time_to_notice() -> None:
    end, checker = Ended(), checkers.MinorityIsSilent()
    checker.observe(1000, ["a"], end.history)
    end.history.confirmed["early"] = ConfirmedRecord("early", "a", 2000)
    end.history.confirmed["elsewhere"] = ConfirmedRecord("elsewhere", "b", 9000)
    checker.observe(9000, ["a"], end.history)
    assert list(checker.finish(end)) == []
    end.history.confirmed["late"] = ConfirmedRecord("late", "a", 9000)
    checker.observe(9100, ["a"], end.history)
    assert list(checker.finish(end)) == ["confirmed by a minority: 1 (late by a, cut off for 8000 ms)"]


def test_different_entries_in_one_place_are_found() -> None:
    checker = checkers.LogsAgree()
    checker.applied("a", 1, 7, b"x")
    checker.applied("b", 1, 7, b"x")
    checker.applied("c", 2, 7, b"y")
    assert list(checker.finish(good())) == []
    checker.applied("c", 1, 7, b"y")
    assert list(checker.finish(good())) == ["a and c applied different entries at 7"]


def test_different_operations_under_one_number_are_found() -> None:
    checker = checkers.RingsAgree()
    assert checker.observe("a", "q", 1, 7, b"x"), "nobody had it before"
    assert not checker.observe("b", "q", 1, 7, b"x")
    assert checker.observe("b", "q", 2, 7, b"y"), "another epoch"
    assert list(checker.finish(good())) == []
    checker.observe("c", "q", 1, 7, b"y")
    assert list(checker.finish(good())) == ["a and c received different operations 7 on queue q"]


def test_a_message_that_goes_without_an_acknowledgement_is_found() -> None:
    checker = checkers.AcksAreNotInvented()
    for number in (1, 2, 3):
        checker.came(1, number, f"m{number}")
    checker.went(1, 1)
    checker.went(1, 2)
    assert list(checker.finish(good())) == []
    checker.went(1, 3)
    assert list(checker.finish(good())) == ["gone and never acknowledged: 1 (m3)"]


def test_a_lease_settles_messages_that_were_lost_with_the_only_disk() -> None:
    end = good()
    end.history.leased.append(LeasedRecord("lease", 1, ("m3",), 5))
    checker = checkers.AcksAreNotInvented()
    checker.came(1, 3, "m3")
    checker.went(1, 3)
    assert list(checker.finish(end)) == ["gone and never acknowledged: 1 (m3)"]
    confirmed = end.history.confirmed.get("m3") or end.history.sent["m3"]
    checker.excuse(confirmed.at_ms, confirmed.at_ms)
    assert list(checker.finish(end)) == []
