"""Shell completion of `mirrormqctl`: candidates for the word being typed.

Shells call `mirrormqctl autocomplete -- WORDS`. The last word is the incomplete one and may be empty.
"""

from __future__ import annotations

import os

from mirrormq.cli.command_line import GENERAL, SWITCHES, VALUE_FLAGS
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.ctl_commands import COMMANDS
from mirrormq.cli.formatting import FORMATTERS
from mirrormq.cli.node_discovery import runtime_directory

WITHOUT_A_NODE = ("autocomplete", "help", "version")
APPLY_TO = ("all", "exchanges", "queues")


def of_ctl(words: list[str]) -> list[str]:
    """Return the valid words that begin with the last word."""
    if words[:1] == ["--"]:
        words = words[1:]
    *before, unfinished = words or [""]
    return sorted(word for word in _possible(before, unfinished) if word.startswith(unfinished))


def _possible(before: list[str], unfinished: str) -> list[str]:
    flag = VALUE_FLAGS.get(before[-1]) if before else None
    if flag is not None:
        return _values(flag)
    name = _command_in(before)
    command = COMMANDS.get(name)
    if unfinished.startswith("-"):
        return _flags(command)
    if name == "help":
        return list(COMMANDS)
    if not name:
        return [*COMMANDS, *WITHOUT_A_NODE]
    return [column for column in command.all_columns if column not in before] if command is not None else []


def _command_in(before: list[str]) -> str:
    """Return the first word that is neither an option nor an option's value."""
    words = iter(before)
    for word in words:
        if word in VALUE_FLAGS:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _flags(command: CtlCommand | None) -> list[str]:
    allowed = GENERAL | (set(command.options) if command is not None else set())
    return [flag for flag, option in (VALUE_FLAGS | SWITCHES).items() if option in allowed and len(flag) > 2]


def _values(option: str) -> list[str]:
    if option == "formatter":
        return list(FORMATTERS)
    if option == "apply-to":
        return list(APPLY_TO)
    if option == "node":
        directory = runtime_directory(os.environ)
        return [socket.stem for socket in directory.glob("*.sock")] if directory.is_dir() else []
    return []
