"""What somebody may have meant by a verb that does not exist.

rabbitmqctl compares by Jaro's measure: how many letters two words share at about the same place, and how many
of those stand in another order. So does this, and with the same limit, so that both suggest the same.
"""

from __future__ import annotations

from collections.abc import Iterable

ALIKE_MIN = 0.77
"""Less alike than this is another word. rabbitmqctl's limit."""


def suggestion(typed: str, known: Iterable[str]) -> str | None:
    """The word most like the one that was typed, if any is like it."""
    best = max(sorted(known), key=lambda word: likeness(typed, word), default="")
    return best if likeness(typed, best) >= ALIKE_MIN else None


def likeness(one: str, other: str) -> float:
    """1.0 for the same word, 0.0 for words without a common letter."""
    if one == other:
        return 1.0
    reach = max(len(one), len(other)) // 2 - 1
    taken: dict[int, str] = {}
    shared: list[str] = []
    for place, letter in enumerate(one):
        for there in range(max(0, place - reach), min(len(other), place + reach + 1)):
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
