"""Polls before metadata is written: several clients share a sync, and a lone client hardly waits."""

from __future__ import annotations

from mirrormq import limits
from mirrormq.runtime.commit_polls import CommitPolls


def test_a_client_that_declares_alone_waits_for_one_poll() -> None:
    polls = CommitPolls()
    assert polls.once_more(1, 1)
    assert not polls.once_more(1, 1)
    assert polls.once_more(2, 1)


def test_declarations_that_keep_arriving_are_written_after_some_polls() -> None:
    polls = CommitPolls()
    answers = [polls.once_more(number, number) for number in range(1, 2 * limits.COMMIT_POSTPONEMENTS)]
    assert answers[: limits.COMMIT_POSTPONEMENTS + 1] == [True] * limits.COMMIT_POSTPONEMENTS + [False]


def test_applied_writes_wait_for_no_poll() -> None:
    assert not CommitPolls().once_more(5, 0)
