"""Log lines: structured, to the console and to a file, with levels by category; never one per message.

Keys and words are RabbitMQ's. A line has a level and a category (`domain` in JSON: `rabbitmq.connection`),
and is written where both the category's level and the output's let it pass. The levels of categories can be
changed while the node runs (`mirrormqctl set_log_level`).
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import MutableMapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec
import structlog

from mirrormq.config.settings import LogOptions

LEVELS = {
    name: number
    for number, name in enumerate(("debug", "info", "notice", "warning", "error", "critical", "none"))
}
COLOURS = {"debug": 2, "info": 32, "notice": 36, "warning": 33, "error": 31, "critical": "1;31"}
"""Of levels on a terminal."""
LINES_KEPT = 1_000
"""Remembered for `log_tail` and `log_tail_stream`, wherever lines go."""
DEFAULT = "default"
CATEGORY = "category"

Event = MutableMapping[str, Any]


class _Output:
    """One place that lines go to."""

    def __init__(self, path: Path | None, formatter: str, level: str) -> None:
        self._path = path
        self._is_json = formatter == "json"
        self.level = LEVELS[level]
        self._stream: TextIO = sys.stderr
        self.reopen()
        self._coloured = self._stream.isatty()

    def reopen(self) -> None:
        """Go on in a new file, where the old one was moved away."""
        if self._path is not None:
            before = self._stream
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self._path.open("a", buffering=1)
            if before is not sys.stderr:
                before.close()

    @property
    def path(self) -> Path | None:
        """Where the lines are; None for the console."""
        return self._path

    def write(self, level: str, category: str, event: Event) -> str:
        """Writes a line, if that is possible; gives it, too. A full disk, or a console that nobody reads any
        more, is no reason to stop whatever it was that is told of."""
        text, facts = str(event["event"]), {name: event[name] for name in event if name not in _TOLD}
        now = str(datetime.now().astimezone())
        line = (self._json if self._is_json else self._plain)(level, category, text, facts, now)
        shown = _sendable(line)
        with contextlib.suppress(OSError):
            self._stream.write(shown + "\n")
        return shown

    def _plain(self, level: str, category: str, text: str, facts: dict[str, Any], now: str) -> str:
        """Of the facts only what the text does not say already."""
        shown = f"\x1b[{COLOURS[level]}m{level}\x1b[0m" if self._coloured else level
        more = "".join([f" {name}={value!r}" for name, value in facts.items() if str(value) not in text])
        return f"{now} [{shown}] {text}{more}"

    @staticmethod
    def _json(level: str, category: str, text: str, facts: dict[str, Any], now: str) -> str:
        domain = "rabbitmq" if category == DEFAULT else f"rabbitmq.{category}"
        line = {"time": now, "level": level, "msg": text, "domain": domain, **facts}
        sendable = {
            name: _sendable(value) if isinstance(value, str) else value for name, value in line.items()
        }
        return msgspec.json.encode(sendable, enc_hook=repr).decode()


_TOLD = frozenset({"event", CATEGORY})


def _sendable(text: str) -> str:
    """What came over a wire may hold what is no character."""
    return text.encode("utf-8", "replace").decode()


class Logs:
    """The levels and outputs of one node."""

    def __init__(self, options: LogOptions) -> None:
        self._levels = {DEFAULT: options.level, **dict(options.categories)}
        self._outputs: list[_Output] = []
        if options.console if options.console is not None else options.file is None:
            self._outputs.append(_Output(None, options.formatter, options.console_level))
        if options.file is not None:
            self._outputs.append(_Output(options.file, options.file_formatter, options.file_level))
        self._kept: deque[str] = deque(maxlen=LINES_KEPT)
        self._written = 0

    @property
    def files(self) -> list[str]:
        """The files that lines go to."""
        return [str(output.path) for output in self._outputs if output.path is not None]

    @property
    def has_console(self) -> bool:
        """Do lines go to standard error?"""
        return any(output.path is None for output in self._outputs)

    def lines_after(self, number: int | None) -> tuple[int, list[str]]:
        """How many lines there have been, and those after the one so numbered, as far as they are kept;
        None for all that are."""
        wanted = len(self._kept) if number is None else min(max(self._written - number, 0), len(self._kept))
        return self._written, list(self._kept)[len(self._kept) - wanted :]

    def set_level(self, category: str, level: str) -> None:
        """From now on until the node stops; `default` for all that have none of their own."""
        self._levels[category] = level

    def reopen(self) -> None:
        """Go on in new files, where the old ones were moved away."""
        for output in self._outputs:
            output.reopen()

    def logger(self) -> Any:
        """Takes `info("text", fact=…)` and so on; `bind(category=…)` gives one of another category."""
        return structlog.wrap_logger(
            structlog.ReturnLogger(), processors=[self._write], wrapper_class=structlog.BoundLogger
        )

    def _write(self, _: Any, level: str, event: Event) -> NoReturn:
        category = event.get(CATEGORY, DEFAULT)
        wanted = LEVELS[self._levels.get(category, self._levels[DEFAULT])]
        rank = LEVELS[level]
        lines = [
            output.write(level, category, event)
            for output in self._outputs
            if rank >= max(wanted, output.level)
        ]
        if lines:
            self._kept.append(lines[-1])
            self._written += 1
        raise structlog.DropEvent


def logger(options: LogOptions) -> Any:
    """A logger as `log.*` asks for."""
    return Logs(options).logger()
