"""Structured log: console and file output, with levels per category. Never one line per message.

Keys and words are RabbitMQ's. A line has a level and a category (`domain` in JSON: `rabbitmq.connection`).
An output writes the line if both the category's level and the output's level permit it. Category levels
can be changed at run time (`mirrormqctl set_log_level`).
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partialmethod
from pathlib import Path
from typing import Any, TextIO

import msgspec

from mirrormq.config.settings import LogOptions

LEVELS = {
    name: number
    for number, name in enumerate(("debug", "info", "notice", "warning", "error", "critical", "none"))
}
COLOURS = {"debug": 2, "info": 32, "notice": 36, "warning": 33, "error": 31, "critical": "1;31"}
"""Terminal colour of each level."""
LINES_KEPT = 1_000
"""Lines kept in memory for `log_tail` and `log_tail_stream`, for every kind of output."""
DEFAULT = "default"
CATEGORY = "category"

Facts = Mapping[str, Any]


class _Output:
    """Destination of log lines: the console or a file."""

    def __init__(self, path: Path | None, formatter: str, level: str) -> None:
        self._path = path
        self._is_json = formatter == "json"
        self.level = LEVELS[level]
        self._stream: TextIO = sys.stderr
        self.reopen()
        self._coloured = self._stream.isatty()

    def reopen(self) -> None:
        """Open a new file after the old one was moved away (log rotation)."""
        if self._path is not None:
            before = self._stream
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self._path.open("a", buffering=1)
            if before is not sys.stderr:
                before.close()

    @property
    def path(self) -> Path | None:
        """Path of the log file; None for the console."""
        return self._path

    def write(self, level: str, category: str, text: str, facts: Facts) -> str:
        """Write a line if possible, and return it. A full disk or a closed console must not stop the
        operation that the line reports."""
        now = str(datetime.now().astimezone())
        line = (self._json if self._is_json else self._plain)(level, category, text, facts, now)
        printable = _encodable(line)
        with contextlib.suppress(OSError):
            self._stream.write(printable + "\n")
        return printable

    def _plain(self, level: str, category: str, text: str, facts: Facts, now: str) -> str:
        """Format a line for people. Facts that the text contains already are left out."""
        shown = f"\x1b[{COLOURS[level]}m{level}\x1b[0m" if self._coloured else level
        more = "".join([f" {name}={value!r}" for name, value in facts.items() if str(value) not in text])
        return f"{now} [{shown}] {text}{more}"

    @staticmethod
    def _json(level: str, category: str, text: str, facts: Facts, now: str) -> str:
        domain = "rabbitmq" if category == DEFAULT else f"rabbitmq.{category}"
        line = {"time": now, "level": level, "msg": text, "domain": domain, **facts}
        sendable = {
            name: _encodable(value) if isinstance(value, str) else value for name, value in line.items()
        }
        return msgspec.json.encode(sendable, enc_hook=repr).decode()


def _encodable(text: str) -> str:
    """Replace lone surrogates: text from the network may contain code points that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


class Logs:
    """Log levels and outputs of one node."""

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
        """Paths of the log files."""
        return [str(output.path) for output in self._outputs if output.path is not None]

    @property
    def has_console(self) -> bool:
        """Whether lines go to standard error."""
        return any(output.path is None for output in self._outputs)

    def lines_after(self, number: int | None) -> tuple[int, list[str]]:
        """Return the number of lines so far, and the kept lines after line `number` (all kept lines for
        None)."""
        wanted = len(self._kept) if number is None else min(max(self._written - number, 0), len(self._kept))
        return self._written, list(self._kept)[len(self._kept) - wanted :]

    def set_level(self, category: str, level: str) -> None:
        """Set the level of a category until the node stops; `default` covers categories without a level."""
        self._levels[category] = level

    def reopen(self) -> None:
        """Open new files after the old ones were moved away (log rotation)."""
        for output in self._outputs:
            output.reopen()

    def logger(self) -> Logger:
        """Return a logger of the default category."""
        return Logger(self._write, DEFAULT)

    def _write(self, level: str, category: str, text: str, facts: Facts) -> None:
        wanted = LEVELS[self._levels.get(category, self._levels[DEFAULT])]
        rank = LEVELS[level]
        lines = [
            output.write(level, category, text, facts)
            for output in self._outputs
            if rank >= max(wanted, output.level)
        ]
        if lines:
            self._kept.append(lines[-1])
            self._written += 1


class Logger:
    """Logger of one category: `info("text", fact=…)` and the like. A call may name another category."""

    def __init__(self, write: Callable[[str, str, str, Facts], None], category: str) -> None:
        self._write = write
        self._category = category

    def bind(self, category: str) -> Logger:
        """Return a logger of another category."""
        return Logger(self._write, category)

    def log(self, level: str, text: str, /, *, category: str | None = None, **facts: Any) -> None:
        """Write a line of a level that is known only now."""
        self._write(level, self._category if category is None else category, text, facts)

    debug = partialmethod(log, "debug")
    info = partialmethod(log, "info")
    notice = partialmethod(log, "notice")
    warning = partialmethod(log, "warning")
    error = partialmethod(log, "error")
    critical = partialmethod(log, "critical")


def logger(options: LogOptions) -> Logger:
    """Return a logger as the `log.*` settings describe it."""
    return Logs(options).logger()
