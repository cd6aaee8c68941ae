"""The total-queue check reports lost, unexpected and duplicated messages, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.chaos.verdict import judge_rows

MESSAGE = ("q", 1, 7)


def test_a_confirmed_message_that_never_came_is_lost() -> None:
    verdict = judge_rows([("attempted", MESSAGE, False), ("confirmed", MESSAGE, False)])
    assert verdict.lost == [MESSAGE]
    assert not verdict.sound


def test_a_message_that_was_never_sent_is_unexpected() -> None:
    verdict = judge_rows([("delivered", MESSAGE, False)])
    assert verdict.unexpected == [MESSAGE]
    assert not verdict.sound


def test_an_unconfirmed_message_may_come_or_not() -> None:
    sent = ("attempted", MESSAGE, False)
    assert judge_rows([sent]).sound
    assert judge_rows([sent, ("delivered", MESSAGE, False)]).sound


def test_coming_again_is_allowed_and_counted() -> None:
    rows = [("attempted", MESSAGE, False), ("delivered", MESSAGE, False), ("delivered", MESSAGE, True)]
    verdict = judge_rows(rows)
    assert (verdict.sound, verdict.duplicated, verdict.unflagged) == (True, 1, 0)
    assert judge_rows([*rows, ("delivered", MESSAGE, False)]).unflagged == 1


@given(st.permutations([(kind, ("q", 1, n), False) for n in range(3) for kind in ("attempted", "delivered")]))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[str, tuple[str, int, int], bool]]) -> None:
    assert judge_rows(rows).sound
