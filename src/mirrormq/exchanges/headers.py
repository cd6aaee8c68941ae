"""Headers exchange: compares a binding's arguments with the message's headers.

`x-match` selects the rule: `all` (the default) requires every argument to match, `any` one of them. Both
ignore arguments whose names start with `x-`; `all-with-x` and `any-with-x` compare those too. An argument
without a value (void) only requires the header to be present. A binding without arguments to compare matches
every message under `all`, and none under `any`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.exchanges.erlang_terms import comparable, type_name, value_text
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.fields import Field, Table, decode_table

MATCH_ARGUMENT = "x-match"
ALL, ANY, ALL_WITH_X, ANY_WITH_X = b"all", b"any", b"all-with-x", b"any-with-x"
MATCH_KINDS = (ALL, ANY, ALL_WITH_X, ANY_WITH_X)
DEFAULT_MATCH = Field("S", ALL)

PRESENT = object()
"""Wildcard among the required values: any value matches."""


class HeaderPattern(NamedTuple):
    """Arguments of a binding, prepared for comparison."""

    every: bool
    values: dict[str, object]

    def matches(self, offered: dict[str, object]) -> bool:
        """Whether the binding matches a message with these comparable header values."""
        for name, value in self.values.items():
            found = name in offered and (value is PRESENT or value == offered[name])
            # The first mismatch decides under `all`, the first match under `any`.
            if found is not self.every:
                return found
        return self.every


def validate_match(arguments: Table) -> None:
    """Refuse an unknown x-match with RabbitMQ's text."""
    field = arguments.get(MATCH_ARGUMENT, DEFAULT_MATCH)
    if field.kind != "S":
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(field)} (value {value_text(field)}); expected longstr"
        )
    if field.value not in MATCH_KINDS:
        raise PreconditionFailed(
            f"Invalid x-match field value {value_text(field)}; expected all, any, all-with-x, or any-with-x"
        )


def wanted(arguments: Table) -> HeaderPattern:
    """Return the pattern of a binding with these arguments."""
    match = arguments.get(MATCH_ARGUMENT, DEFAULT_MATCH).value
    with_x = match in (ALL_WITH_X, ANY_WITH_X)
    values = {
        name: PRESENT if field.kind == "V" else comparable(field)
        for name, field in arguments.items()
        if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
    }
    return HeaderPattern(match not in (ANY, ANY_WITH_X), values)


class HeadersExchange(Exchange):
    kind = "headers"
    needs_headers = True
    cacheable = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._wanted: dict[Binding, HeaderPattern] = {}

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        offered = {name: comparable(field) for name, field in headers.items()}
        return [binding.destination for binding, each in self._wanted.items() if each.matches(offered)]

    def _added(self, binding: Binding) -> None:
        self._wanted[binding] = wanted(decode_table(binding.arguments, 0)[0])

    def _removed(self, binding: Binding) -> None:
        del self._wanted[binding]
