"""Nodes whose disks went back: peers detect them, they do not vote, and they vote again once caught up."""

from __future__ import annotations

import msgspec
import pytest

from mirrormq.consensus import DurableState
from mirrormq.consensus.durable_states import merged, went_back

KNOWN = DurableState("a", boots=3, start=77, term=5, last=(5, 40))


def stated() -> DurableState:
    """Return the statement of a later start of the same node, with the same log."""
    return msgspec.structs.replace(KNOWN, boots=4, start=78)


@pytest.mark.parametrize(
    "changes", [{}, {"last": (5, 41)}, {"term": 6}, {"term": 6, "last": (4, 39)}, {"boots": 9}]
)
def test_a_later_start_with_the_same_log_or_more_has_not_gone_back(changes: dict[str, object]) -> None:
    assert not went_back(KNOWN, msgspec.structs.replace(stated(), **changes))


@pytest.mark.parametrize(
    "changes", [{"boots": 3}, {"boots": 2}, {"term": 4}, {"last": (5, 39)}, {"last": (4, 90)}]
)
def test_fewer_starts_an_older_term_or_a_shorter_log_show_an_older_copy(changes: dict[str, object]) -> None:
    assert went_back(KNOWN, msgspec.structs.replace(stated(), **changes))


def test_a_lower_statement_of_the_same_start_is_only_late() -> None:
    assert not went_back(KNOWN, msgspec.structs.replace(KNOWN, term=1, last=(1, 1)))


def test_a_node_has_to_reach_the_highest_of_both() -> None:
    found = merged(KNOWN, msgspec.structs.replace(stated(), boots=9, term=7, last=(2, 2)))
    assert (found.boots, found.term, found.last) == (9, 7, (5, 40))
