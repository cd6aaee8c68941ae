"""Hints: one plain sentence under an error that RabbitMQ words as an Erlang term.

The error keeps RabbitMQ's wording, because scripts compare it. The hint explains it and names the nearest
valid name or the position of the mistake.

rabbitmqctl finds the nearest name by the Jaro distance: the number of letters that two words share at about
the same position, and how many of those are transposed. The limit is the same here, so that both tools
suggest the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

NAMES_SHOWN_MAX = 8
"""Longest list of valid names that a hint shows."""


def no_such(kind: str, name: str, known: Iterable[str], listed_by: str = "") -> str:
    """Return a hint for an unknown name: the nearest known name, or all known names."""
    names = sorted(known)
    near = suggestion(name, names)
    if near is not None:
        return f"There is no {kind} '{name}'; the nearest is '{near}'."
    if len(names) <= NAMES_SHOWN_MAX:
        return f"There is no {kind} '{name}'; there is {quoted(names)}." if names else f"There is no {kind}."
    return f"There is no {kind} '{name}'{f': see {listed_by}' if listed_by else ''}."


def quoted(names: Iterable[str]) -> str:
    """Join names for a sentence: `'a', 'b' or 'c'`."""
    *most, last = (f"'{name}'" for name in names)
    return f"{', '.join(most)} or {last}" if most else last


def bad_json(text: str) -> str:
    """Return a hint with the position at which a text stops being JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        where = f"at character {error.pos + 1}"
        character = text[error.pos : error.pos + 1]
        rest = f", found {character!r}" if character else ", where the text ends"
        quotes = " In a shell, put single quotes around JSON." if "'" in text or '"' not in text else ""
        return f"This is not JSON: {error.msg[0].lower()}{error.msg[1:]} {where}{rest}.{quotes}"
    except (RecursionError, ValueError):
        pass
    return "This is not JSON that the node can read."


def bad_pattern(expression: str, reason: str, position: int) -> str:
    """Return a hint with the position at which a regular expression is invalid."""
    return f"The regular expression '{expression}' cannot be read at character {position + 1}: {reason}."


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
