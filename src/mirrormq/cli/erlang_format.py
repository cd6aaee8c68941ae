"""Pretty printer of Erlang terms, for rabbitmqctl's formatter `erlang`.

Erlang programs parse this text, and operators compare it with RabbitMQ's output, so the lines break where
Erlang's `~p` breaks them:

- A term stays on a line if it fits into the rest of 80 columns, with the brackets that close after it.
- Otherwise each element has its own line, under the first one. Only plain values share lines.
- A tuple that begins with an atom has its other elements beside that atom. If they would begin beyond the
  middle of the line, they move, in the whole text, to 4 columns after the bracket, or to 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

LINE_COLUMNS = 80
USED_COLUMNS = LINE_COLUMNS - 2
"""Last column of a line, apart from a comma."""
FURTHEST_COLUMN = LINE_COLUMNS // 2 - 1
"""Column before which the elements beside an atom must begin."""
BESIDE = 0
BYTES_COLUMNS_MIN = 8
"""Columns that a binary gets at least, however far right it begins."""
_RESERVED = """
after and andalso band begin bnot bor bsl bsr bxor case catch cond div end fun if let not of or orelse receive
rem try when xor
"""
RESERVED = frozenset(_RESERVED.split())
"""Reserved words of Erlang, which need quotes as atoms."""
PLAIN_ATOM = re.compile(r"[a-z][A-Za-z0-9_@]*")
ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\b": "\\b",
    "\f": "\\f", "\x1b": "\\e",
}  # fmt: skip


class Atom(str):
    """Erlang atom."""


class Chars(str):
    """Erlang string: a list of characters."""


class Pid(str):
    """Erlang pid, printed unchanged."""


@dataclass(frozen=True, slots=True)
class TermPart:
    """Term with its one-line form and the parts at which it can be broken."""

    line: str
    brackets: tuple[str, ...] = ()
    inside: tuple[TermPart, ...] = ()
    is_tagged: bool = False
    numbers: tuple[str, ...] = ()
    """Byte values of a binary that is not printable text."""

    @property
    def is_plain(self) -> bool:
        return not self.brackets and not self.numbers


class _LineTooLong(Exception):
    """Layout failure: the elements beside an atom would begin beyond the middle of the line."""


def written(term: Any) -> str:
    """Format a term as Erlang's `~p` does."""
    piece = _piece(term)
    # Erlang tries its layouts in this order and uses the first that fits for the whole text.
    for step in (BESIDE, 4):
        try:
            return _pretty_printed(piece, step)
        except _LineTooLong:
            continue
    return _pretty_printed(piece, 1)


def _pretty_printed(piece: TermPart, step: int) -> str:
    printer = _PrettyPrinter(step)
    printer.put(piece, 0)
    return "\n".join(printer.lines)


class _PrettyPrinter:
    """Lines of one layout; the last line is incomplete."""

    def __init__(self, step: int) -> None:
        self.lines = [""]
        self._step = step
        """Indentation of a tuple's elements below its atom, or BESIDE it."""

    @property
    def column(self) -> int:
        return len(self.lines[-1])

    def write(self, text: str) -> None:
        self.lines[-1] += text

    def put(self, piece: TermPart, closing: int) -> None:
        """Write a term that is followed by `closing` closing brackets."""
        if piece.is_plain or self._has_room(piece, closing):
            self.write(piece.line)
        elif piece.numbers:
            self._put_numbers(piece.numbers, closing)
        else:
            start = self.column
            self.write(piece.brackets[0])
            tag = piece.inside[0].line if piece.is_tagged else ""
            if not tag:
                self._put_each(piece.inside, start + len(piece.brackets[0]), closing + 1)
            elif self._step != BESIDE and self._step < len(tag) + 2:
                self._put_each(piece.inside, self._allowed(start + self._step), closing + 1, spare=1)
            else:
                self.write(f"{tag},")
                self._put_each(piece.inside[1:], self._allowed(self.column), closing + 1)
            self.write(piece.brackets[1])

    def _has_room(self, piece: TermPart, more: int) -> bool:
        return self.column + len(piece.line) + more <= USED_COLUMNS

    def _allowed(self, margin: int) -> int:
        if margin >= FURTHEST_COLUMN and self._step != 1:
            raise _LineTooLong
        return margin

    def _put_each(self, pieces: Sequence[TermPart], margin: int, closing: int, spare: int = 0) -> None:
        """Write terms with commas between them. On the line of a tuple's atom Erlang reserves one column
        (`spare`)."""
        is_open = False  # Whether the line accepts another plain value.
        for place, piece in enumerate(pieces):
            after = closing if place == len(pieces) - 1 else 0
            if place:
                self.write(",")
                if not (is_open and piece.is_plain and self._has_room(piece, max(after, 1) + spare)):
                    self.lines.append(" " * margin)
                    spare = 0
            is_open = piece.is_plain and self._has_room(piece, after)
            self.put(piece, after)

    def _put_numbers(self, numbers: Sequence[str], closing: int) -> None:
        self.write("<<")
        margin = self.column
        end = max(margin + BYTES_COLUMNS_MIN, USED_COLUMNS + 1 - closing)
        for place, number in enumerate(numbers):
            word = number if place == len(numbers) - 1 else f"{number},"
            if self.column + len(word) > end:
                self.lines.append(" " * margin)
            self.write(word)
        self.write(">>")


def _piece(term: Any) -> TermPart:
    if isinstance(term, tuple | list):
        inside = tuple(map(_piece, term))
        is_tagged = isinstance(term, tuple) and len(term) > 1 and isinstance(term[0], Atom | bool | None)
        return _enclosed(("{", "}") if isinstance(term, tuple) else ("[", "]"), inside, is_tagged)
    if isinstance(term, dict):
        pairs = [TermPart(f"{_piece(key).line} => {_piece(value).line}") for key, value in term.items()]
        return _enclosed(("#{", "}"), tuple(pairs), is_tagged=False)
    if isinstance(term, Pid):
        return TermPart(str(term))
    if isinstance(term, bool | Atom | None):
        return TermPart(_atom(str(term) if isinstance(term, Atom) else _word(term)))
    if isinstance(term, Chars):
        return TermPart('"' + "".join(ESCAPES.get(sign, sign) for sign in term) + '"')
    if isinstance(term, str):
        return _binary(term)
    return TermPart(_float(term) if isinstance(term, float) else str(term))


def _enclosed(brackets: tuple[str, str], inside: tuple[TermPart, ...], is_tagged: bool) -> TermPart:
    line = brackets[0] + ",".join(part.line for part in inside) + brackets[1]
    return TermPart(line, brackets if inside else (), inside, is_tagged)


def _word(value: bool | None) -> str:
    return {True: "true", False: "false", None: "undefined"}[value]


def _atom(name: str) -> str:
    if PLAIN_ATOM.fullmatch(name) and name not in RESERVED:
        return name
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _binary(text: str) -> TermPart:
    """Return a binary: as text if every byte is a printable character, else as numbers."""
    data = text.encode("utf-8", "surrogateescape")
    signs = data.decode("latin-1")
    if not data:
        return TermPart("<<>>")
    if all(sign in ESCAPES or " " <= sign <= "~" or sign >= "\xa0" for sign in signs):
        return TermPart('<<"' + "".join(ESCAPES.get(sign, sign) for sign in signs) + '">>')
    numbers = tuple(map(str, data))
    return TermPart("<<" + ",".join(numbers) + ">>", numbers=numbers)


def _float(value: float) -> str:
    """Return the shorter of decimal and scientific notation; both contain a point."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    power = int(exponent) + len(digits) - 1
    scientific = f"{'-' * sign}{first}.{rest}e{power}"
    return min(f"{Decimal(repr(value)):f}", scientific, key=len)
