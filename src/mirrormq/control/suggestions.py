"""Suggestion of the nearest known name for a mistyped one.

rabbitmqctl uses the Jaro distance: the number of letters that two words share at about the same position,
and how many of those are transposed. The limit is the same here, so that both tools suggest the same name.
"""

from __future__ import annotations

from collections.abc import Iterable

ALIKE_MIN = 0.77
"""Smallest similarity of a suggestion; rabbitmqctl's limit."""


def suggestion(typed: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to the typed one, or None if none is similar enough."""
    best = max(sorted(known), key=lambda word: likeness(typed, word), default="")
    return best if likeness(typed, best) >= ALIKE_MIN else None


def likeness(one: str, other: str) -> float:
    """Return the Jaro similarity: 1.0 for equal words, 0.0 for words without a common letter."""
    if one == other:
        return 1.0
    window = max(len(one), len(other)) // 2 - 1
    taken: dict[int, str] = {}
    shared: list[str] = []
    for place, letter in enumerate(one):
        for there in range(max(0, place - window), min(len(other), place + window + 1)):
            if other[there] == letter and there not in taken:
                taken[there] = letter
                shared.append(letter)
                break
    if not shared:
        return 0.0
    in_order = [taken[there] for there in sorted(taken)]
    moved = sum(here != there for here, there in zip(shared, in_order, strict=True)) / 2
    count = len(shared)
    return (count / len(one) + count / len(other) + (count - moved) / count) / 3
