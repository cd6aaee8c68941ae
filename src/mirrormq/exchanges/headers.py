"""Headers: a binding's arguments are compared with the message's headers.

`x-match` says how: `all` (also when it is missing) wants every argument matched, `any` one of
them; both look past arguments whose names start with `x-`, which `all-with-x` and `any-with-x`
compare like the others. An argument without a value (void) wants the header present, nothing
more. So a binding without arguments to compare gets everything under `all`, nothing under `any`.
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
"""Stands for "any value" among the wanted ones."""


class HeaderPattern(NamedTuple):
    """A binding's arguments, made ready to be compared."""

    every: bool
    values: dict[str, object]

    def matches(self, offered: dict[str, object]) -> bool:
        """Whether a message with these comparable header values goes to the binding."""
        for name, value in self.values.items():
            found = name in offered and (value is PRESENT or value == offered[name])
            if found is not self.every:
                return found
        return self.every


def validate_match(arguments: Table) -> None:
    """Refuse an unknown x-match, in RabbitMQ's words."""
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
    """What a binding with these arguments asks for."""
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
