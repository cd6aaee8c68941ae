"""Headers exchange: compares a binding's arguments with the message's headers.

`x-match` selects the rule: `all` (the default) requires every argument to match, `any` one of them. Both
ignore arguments whose names start with `x-`; `all-with-x` and `any-with-x` compare those too. An argument
without a value (void) only requires the header to be present. A binding without arguments to compare matches
every message under `all`, and none under `any`.

Bindings are indexed by header and value, so that a message is compared only with bindings that share one
pair with it. The cost of a message does not grow with the bindings that require other values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.erlang_terms import comparable, type_name, value_text
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

    def matches(self, headers: Table) -> bool:
        """Whether the binding matches a message with these headers."""
        for name, value in self.values.items():
            found = name in headers and (value is PRESENT or value == comparable(headers[name]))
            # The first mismatch decides under `all`, the first match under `any`.
            if found is not self.every:
                return found
        return self.every


NONE: dict[Binding, HeaderPattern] = {}


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
        self._index: dict[str, dict[object, dict[Binding, HeaderPattern]]] = {}
        """Bindings by header name, and by required value or PRESENT.

        A pattern under `any` stands under each of its pairs. A pattern under `all` stands under one, the
        rarest when it was bound: a message without that pair cannot match.
        """
        self._unconditional: dict[Binding, None] = {}
        """Bindings under `all` that require nothing."""
        self._pairs: dict[Binding, tuple[tuple[str, object], ...]] = {}
        """Pairs under which a binding stands in the index."""

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        index = self._index
        found = [binding.destination for binding in self._unconditional]
        for name, field in headers.items():
            by_value = index.get(name)
            if by_value is None:
                continue
            for value in (comparable(field), PRESENT):
                for binding, pattern in by_value.get(value, NONE).items():
                    # A pattern with one pair has matched; further pairs matter under `all` only.
                    if len(pattern.values) == 1 or not pattern.every or pattern.matches(headers):
                        found.append(binding.destination)
        return found

    def _added(self, binding: Binding) -> None:
        pattern = wanted(decode_table(binding.arguments, 0)[0])
        pairs = tuple(pattern.values.items())
        if pattern.every:
            if not pairs:
                self._unconditional[binding] = None
            pairs = tuple(sorted(pairs, key=self._count)[:1])
        self._pairs[binding] = pairs
        for name, value in pairs:
            self._index.setdefault(name, {}).setdefault(value, {})[binding] = pattern

    def _count(self, pair: tuple[str, object]) -> int:
        """Return the number of bindings under a pair."""
        name, value = pair
        return len(self._index.get(name, {}).get(value, NONE))

    def _removed(self, binding: Binding) -> None:
        self._unconditional.pop(binding, None)
        for name, value in self._pairs.pop(binding):
            by_value = self._index[name]
            del by_value[value][binding]
            if not by_value[value]:
                del by_value[value]
            if not by_value:
                del self._index[name]
