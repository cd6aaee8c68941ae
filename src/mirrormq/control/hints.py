"""Hints: one sentence under an error that RabbitMQ words as an Erlang term.

The error stays as RabbitMQ writes it, since scripts compare it. The hint says the same in words, with the
nearest name that would have been right, or the place of the mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from mirrormq.control.suggestions import suggestion

NAMES_SHOWN_MAX = 8
"""A list of valid names longer than this is left out."""


def no_such(kind: str, name: str, known: Iterable[str], listed_by: str = "") -> str:
    """A name that does not exist, and the nearest or all of those that do."""
    names = sorted(known)
    near = suggestion(name, names)
    if near is not None:
        return f"There is no {kind} '{name}'; the nearest is '{near}'."
    if len(names) <= NAMES_SHOWN_MAX:
        return f"There is no {kind} '{name}'; there is {quoted(names)}." if names else f"There is no {kind}."
    return f"There is no {kind} '{name}'{f': see {listed_by}' if listed_by else ''}."


def quoted(names: Iterable[str]) -> str:
    """Names in a sentence: `'a', 'b' or 'c'`."""
    *most, last = (f"'{name}'" for name in names)
    return f"{', '.join(most)} or {last}" if most else last


def bad_json(text: str) -> str:
    """Where a text stops to be JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        where = f"at character {error.pos + 1}"
        found = text[error.pos : error.pos + 1]
        rest = f", found {found!r}" if found else ", where the text ends"
        quotes = " In a shell, put single quotes around JSON." if "'" in text or '"' not in text else ""
        return f"This is not JSON: {error.msg[0].lower()}{error.msg[1:]} {where}{rest}.{quotes}"
    except (RecursionError, ValueError):
        pass
    return "This is not JSON that the node can read."


def bad_pattern(expression: str, reason: str, position: int) -> str:
    """Where a regular expression cannot be read."""
    return f"The regular expression '{expression}' cannot be read at character {position + 1}: {reason}."
