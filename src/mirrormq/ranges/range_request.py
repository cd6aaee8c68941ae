"""Range request on a node: decoded from headers, forwarded to another node, replied to.

A wrong request is refused with the error that AMQP would use, in the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from mirrormq.errors import AmqpError, PreconditionFailed
from mirrormq.sequences import spans
from mirrormq.sequences.spans import Span
from mirrormq.wire.fields import Table, decode_table, encode_table, plain

NUMBER_MAX = (1 << 63) - 1


class RangeRequest(NamedTuple):
    """Range request with its user."""

    headers: bytes
    """Encoded table with its length."""
    body: bytes
    user: str

    def values(self) -> RequestValues:
        """Decode the headers."""
        return RequestValues(decode_table(self.headers, 0)[0], self.body)


class RangeReply(NamedTuple):
    """Successful reply."""

    headers: bytes
    """Encoded table with its length."""
    body: bytes = b""


def reply(headers: Table, body: bytes = b"") -> RangeReply:
    """Build a reply with these headers."""
    return RangeReply(encode_table(headers), body)


Answered = Callable[[RangeReply], object]
Refused = Callable[[AmqpError], None]


class RequestValues:
    """Typed access to the headers of a request. A missing header or a wrong type raises
    PreconditionFailed."""

    def __init__(self, table: Table, body: bytes) -> None:
        self._table = table
        self._body = body

    def text(self, name: str) -> str:
        """Return a string header."""
        found = self._table.get(name)
        if found is None or not isinstance(found.value, bytes):
            raise PreconditionFailed(f"a range request needs the header '{name}', a string")
        return found.value.decode("utf-8", "surrogateescape")

    def has(self, name: str) -> bool:
        return name in self._table

    def number(self, name: str, otherwise: int | None = None) -> int:
        """Return a header that is a non-negative number."""
        found = self._table.get(name)
        if found is None and otherwise is not None:
            return otherwise
        if found is None or not isinstance(found.value, int) or isinstance(found.value, bool):
            raise PreconditionFailed(f"a range request needs the header '{name}', a number")
        if not 0 <= found.value <= NUMBER_MAX:
            raise PreconditionFailed(f"the header '{name}' must not be negative: {found.value}")
        return found.value

    def scalars(self, name: str) -> dict[str, bool | int | float | str]:
        """Return a header that is a table of numbers and texts; empty if it is missing."""
        found = self._table.get(name)
        if found is None:
            return {}
        if not isinstance(found.value, dict):
            raise PreconditionFailed(f"the header '{name}' must be a table")
        scalars: dict[str, bool | int | float | str] = {}
        for inner, value in plain(found.value).items():
            if isinstance(value, Decimal):
                scalars[inner] = float(value)
            elif isinstance(value, bool | int | float | str):
                scalars[inner] = value
            else:
                raise PreconditionFailed(f"'{inner}' in the header '{name}' must be a number or a text")
        return scalars

    def spans(self) -> list[Span] | None:
        """Decode the body; None without one."""
        if not self._body:
            return None
        try:
            return spans.unpack(self._body)
        except ValueError as error:
            raise PreconditionFailed(f"the body of a range request is wrong: {error}") from None
