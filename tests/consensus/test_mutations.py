"""Mutation tests of the checkers: each injected fault is caught, and the correct code passes."""

from __future__ import annotations

import pytest

from mirrormq.consensus import Consensus, Majority, Reachable, UnsafeTruncation
from tests.consensus import mutants
from tests.consensus.checkers import Violation
from tests.consensus.figure8 import figure_8
from tests.consensus.storms import storm
from tests.consensus.world import World

SEEDS_UNTIL_CAUGHT = 150
"""Upper bound of seeds per mutant. Far fewer catch each mutant below."""


def caught(mutant: type[Consensus], rule: type[Majority | Reachable]) -> str:
    """Return the message of the first checker that objects."""
    for seed in range(SEEDS_UNTIL_CAUGHT):
        try:
            storm(seed, rule, mutant)
        except (Violation, UnsafeTruncation) as problem:
            return f"{type(problem).__name__}: {problem}"
        except IndexError:
            continue  # the mutant raised before it did harm; another seed shows more
    return "nobody noticed"


@pytest.mark.parametrize(
    ("mutant", "rule", "words"),
    [
        (mutants.NeverSyncs, Majority, ""),
        (mutants.AppliesTwice, Majority, "twice"),
        (mutants.VotesForAnyone, Majority, ""),
        (mutants.IgnoresBranches, Reachable, "UnsafeTruncation"),
        (mutants.MergesSilently, Reachable, "Violation"),
    ],
)
def test_storms_catch(mutant: type[Consensus], rule: type[Majority | Reachable], words: str) -> None:
    said = caught(mutant, rule)
    assert said != "nobody noticed"
    assert words in said


def vote_twice(node_type: type[Consensus]) -> None:
    """C votes for A and crashes; B, which knows nothing of it, requests C's vote in the same term."""
    world = World("ABC", node_type=node_type)
    world.partition("AC", "B", notify=False)
    world["A"].state.elections.campaign()
    world.pump(world.nodes["A"])
    world.until(lambda: world.leaders() == ["A"], 5)
    world.crash("C")
    world.restart("C")
    world.partition("BC", "A", notify=False)
    world["B"].state.elections.campaign()
    world.pump(world.nodes["B"])
    world.run(30)


def test_a_vote_that_is_not_persisted_makes_two_leaders() -> None:
    vote_twice(Consensus)
    with pytest.raises(Violation, match="two leaders"):
        vote_twice(mutants.ForgetsVotes)


def test_counting_entries_of_older_terms_loses_committed_ones() -> None:
    with pytest.raises((Violation, UnsafeTruncation)):
        figure_8(mutants.CountsOldTerms)
