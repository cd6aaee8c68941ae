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

    def matches(self, offered: dict[str, object]) -> bool:
        """Whether the binding matches a message with these comparable header values."""
        for name, value in self.values.items():
            found = name in offered and (value is PRESENT or value == offered[name])
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
        self._index: dict[tuple[str, object], dict[Binding, HeaderPattern]] = {}
        """Bindings by header name and required value, or PRESENT.

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
        offered = {name: comparable(field) for name, field in headers.items()}
        index = self._index
        found = [binding.destination for binding in self._unconditional]
        for name, value in offered.items():
            for pair in ((name, value), (name, PRESENT)):
                for binding, pattern in index.get(pair, NONE).items():
                    # A pattern with one pair has matched; further pairs matter under `all` only.
                    if len(pattern.values) == 1 or not pattern.every or pattern.matches(offered):
                        found.append(binding.destination)
        return found

    def _added(self, binding: Binding) -> None:
        pattern = wanted(decode_table(binding.arguments, 0)[0])
        pairs = tuple(pattern.values.items())
        if pattern.every:
            if not pairs:
                self._unconditional[binding] = None
            pairs = tuple(sorted(pairs, key=lambda pair: len(self._index.get(pair, NONE)))[:1])
        self._pairs[binding] = pairs
        for pair in pairs:
            self._index.setdefault(pair, {})[binding] = pattern

    def _removed(self, binding: Binding) -> None:
        self._unconditional.pop(binding, None)
        for pair in self._pairs.pop(binding):
            bucket = self._index[pair]
            del bucket[binding]
            if not bucket:
                del self._index[pair]
