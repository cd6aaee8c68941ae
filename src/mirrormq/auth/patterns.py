"""Regular expressions of operators (permissions, policies), run with a time limit.

RabbitMQ passes patterns of permissions and policies to Erlang's `re:run`: Perl syntax (PCRE), matched
anywhere in the name, on octets and not on characters, and aborted without a match at a step limit. Here the
`regex` module matches, on octets too, and a time limit replaces PCRE's step limit. `_translate` rewrites what
`regex` reads differently: a brace that starts no repeat count is an ordinary character (`regex` might see a
fuzzy match in it), and `\\Q…\\E`, `\\z`, `\\Z`, `\\h`, `\\x{…}` have their Perl meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache

MATCH_TIMEOUT_S = 0.02
"""Time limit of one match. Ordinary patterns over names (at most 255 octets) take microseconds. PCRE's own
limit of ten million steps comes to about this on current machines."""

TIMEOUTS_FORGIVEN = 10
SUSPECT_TIMEOUT_S = 0.001
"""Time limit of a pattern after `TIMEOUTS_FORGIVEN` timeouts. A policy with a pathological pattern over ten
thousand queues costs seconds instead of minutes. Its fast matches, in microseconds, still succeed."""

PATTERNS_CACHED_MAX = 4096
"""Compiled patterns kept: some kilobytes each. Real brokers have tens or hundreds."""

_REPEAT_COUNT = re.compile(rb"\{\d+(?:,\d*)?\}")
_HEX_ESCAPE = re.compile(rb"\\x\{([0-9a-fA-F]{1,2})\}")
_BRACED_ESCAPE = re.compile(rb"\\[pPgkNo]\{[^}]*\}")
_POSIX_CLASS = re.compile(rb"\[:\^?[a-z]+:\]")
_ESCAPES = {b"\\z": rb"\Z", b"\\Z": rb"(?=\n?\Z)", b"\\h": rb"[ \t]", b"\\e": rb"\x1b"}

_PERL_TEXTS = {
    "unterminated character set": "missing terminating ] for character class",
    "multiple repeat": "nothing to repeat",
    "unbalanced parenthesis": "unmatched parentheses",
    "min repeat greater than max repeat": "numbers out of order in {} quantifier",
    "bad escape (end of pattern)": "\\ at end of pattern",
    "bad character range": "range out of order in character class",
}
"""PCRE's text for each error text of `regex`."""


MATCHES_ALL = frozenset({"", ".*"})
"""Patterns of most users. They are not compiled: `regex` takes 1 MB and is imported for the first other
pattern."""


class PatternInvalid(Exception):
    """Pattern that is not a regular expression: PCRE's text, and the octet of the error."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(f"{text} at {position}")
        self.text = text
        self.position = position


class _Pattern:
    """Compiled pattern with its number of timeouts."""

    __slots__ = ("_search", "timeouts")

    def __init__(self, raw: bytes) -> None:
        import regex

        self._search = regex.compile(_translate(raw)).search
        self.timeouts = 0

    def occurs_in(self, name: bytes) -> bool:
        limit_s = MATCH_TIMEOUT_S if self.timeouts < TIMEOUTS_FORGIVEN else SUSPECT_TIMEOUT_S
        try:
            return self._search(name, timeout=limit_s) is not None
        except TimeoutError:
            self.timeouts += 1
            return False


def check(pattern: str) -> None:
    """Raise PatternInvalid unless the pattern can be used."""
    _compile(pattern)


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern occurs in the name; False too if it is invalid or exceeds the time limit."""
    if pattern in MATCHES_ALL:
        return True
    try:
        return _compile(pattern).occurs_in(name.encode("utf-8", "surrogateescape"))
    except PatternInvalid:
        return False


def permits(pattern: str, name: str) -> bool:
    """Match a permission, where the empty pattern permits no name except ""."""
    return matches(pattern, name) if pattern else name == ""


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def _compile(pattern: str) -> _Pattern:
    import regex

    raw = pattern.encode("utf-8", "surrogateescape")
    try:
        return _Pattern(raw)
    except regex.error as error:
        text = _PERL_TEXTS.get(error.msg, error.msg)
        position = error.pos if error.pos is not None else len(raw)
        raise PatternInvalid(text, min(position, len(raw))) from None
    except (RecursionError, OverflowError, MemoryError):
        raise PatternInvalid("regular expression is too large", len(raw)) from None


def _translate(raw: bytes) -> bytes:
    """Rewrite Perl's syntax into that of `regex`."""
    out: list[bytes] = []
    at = 0
    class_start = -1
    while at < len(raw):
        octet = raw[at : at + 1]
        if octet == b"\\":
            piece, at = _translate_escape(raw, at, in_class=class_start >= 0)
            out.append(piece)
            continue
        if class_start >= 0:
            if posix := _POSIX_CLASS.match(raw, at):
                out.append(posix.group())
                at = posix.end()
                continue
            # A `]` right after `[` or `[^` is a member of the class, not its end.
            if octet == b"]" and at > class_start:
                class_start = -1
            elif octet == b"[":
                octet = rb"\["
        elif octet == b"[":
            class_start = at + 2 if raw[at + 1 : at + 2] == b"^" else at + 1
        elif octet == b"{" and not _REPEAT_COUNT.match(raw, at):
            octet = rb"\{"
        out.append(octet)
        at += 1
    return b"".join(out)


def _translate_escape(raw: bytes, at: int, *, in_class: bool) -> tuple[bytes, int]:
    if raw.startswith(rb"\Q", at):
        end = raw.find(rb"\E", at)
        import regex

        quoted = raw[at + 2 : end] if end >= 0 else raw[at + 2 :]
        return regex.escape(quoted), end + 2 if end >= 0 else len(raw)
    if raw.startswith(rb"\E", at):
        return b"", at + 2
    if braced := _HEX_ESCAPE.match(raw, at):
        return b"\\x" + braced.group(1).rjust(2, b"0"), braced.end()
    if braced := _BRACED_ESCAPE.match(raw, at):
        return braced.group(), braced.end()
    escape = raw[at : at + 2]
    if in_class:
        return (rb" \t" if escape == rb"\h" else escape), at + 2
    return _ESCAPES.get(escape, escape), at + 2
