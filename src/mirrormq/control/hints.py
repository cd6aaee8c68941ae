"""Hints: one plain sentence under an error that RabbitMQ words as an Erlang term.

The error keeps RabbitMQ's wording, because scripts compare it. The hint explains it and names the nearest
valid name or the position of the mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from mirrormq.control.suggestions import suggestion

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
