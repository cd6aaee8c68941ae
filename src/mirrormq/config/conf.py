"""Parser of rabbitmq.conf: lines of `key = value`, with file and line number.

    # a comment
    listeners.tcp.default = 5672
    default_pass = 's3cret # not a comment'

A key is words of letters, digits, `_`, `-` and `@` joined by dots; a dot inside a word is written
`\\.`. A value is the rest of the line without surrounding blanks; a value in single quotes is
kept verbatim; otherwise a `#` after a blank starts a comment. A key given twice keeps the last
value, as in RabbitMQ. `config.keys` defines which keys exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mirrormq.errors import ConfigurationError

LINE = re.compile(r"^(?P<key>(?:[^\s=#\\]|\\.)+)\s*=\s*(?P<value>.*)$")
COMMENT_AFTER_VALUE = re.compile(r"\s#.*$")


@dataclass(frozen=True, slots=True)
class ConfEntry:
    """Setting as written, with its source."""

    key: str
    value: str
    source: str
    """Source for error messages: `file:line`, the name of a variable, or a flag."""


def parse_conf(text: str, name: str) -> list[ConfEntry]:
    """Return every setting of a file's text, in order; `name` is the file's name in error messages."""
    entries = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        where = f"{name}:{number}"
        match = LINE.match(line)
        if match is None:
            raise ConfigurationError(f"{where}: expected `key = value`, found `{_without_secrets(line)}`.")
        key = match["key"]
        entries.append(ConfEntry(key, _value(match["value"], key, where), where))
    return entries


def read_conf(path: Path) -> list[ConfEntry]:
    """Return every setting of the file at `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"Cannot read the configuration file {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"The configuration file {path} is not UTF-8 text.") from error
    return parse_conf(text, str(path))


def _without_secrets(line: str) -> str:
    """Return a line for an error message: of a password or a URI only the first word."""
    words = line.split()
    return f"{words[0]} …" if len(words) > 1 and ("://" in line or "pass" in line) else line


def _value(text: str, key: str, where: str) -> str:
    if text.startswith("'"):
        closing = text.find("'", 1)
        rest = text[closing + 1 :].strip() if closing > 0 else ""
        if closing < 0 or (rest and not rest.startswith("#")):
            raise ConfigurationError(f"{where}: the quoted value of {key} has no closing quote.")
        return text[1:closing]
    value = COMMENT_AFTER_VALUE.sub("", text).strip()
    if not value or value.startswith("#"):
        raise ConfigurationError(f"{where}: {key} has no value.")
    return value


def split_key(key: str) -> list[str]:
    """Return the words of a dotted key; `\\.` is a dot that belongs to a word."""
    return [word.replace("\\.", ".") for word in re.split(r"(?<!\\)\.", key)]
