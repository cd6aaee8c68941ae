"""x-recent-history: a fanout that keeps its last messages and delivers them to a new binding.

The exchange does not keep a message with the header `x-recent-history-no-store: true`. The history is in
memory only, as in RabbitMQ's plugin. As there, a newly bound exchange gets the newest message first, a queue
the oldest.
"""

from __future__ import annotations

from collections import deque

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import EXCHANGE, Binding
from mirrormq.exchanges.fanout import FanoutExchange
from mirrormq.wire.erlang_terms import value_text
from mirrormq.wire.fields import Field, Table

LENGTH_ARGUMENT = "x-recent-history-length"
NO_STORE_HEADER = "x-recent-history-no-store"

LENGTH_DEFAULT = 20
"""Messages kept by default, as in RabbitMQ's plugin."""

INTEGER_KINDS = "bsIl"
"""Field types that the plugin accepts as a length; it refuses unsigned integers."""


def _length(field: Field) -> int:
    """Return the argument's value; 0 if it is not an integer."""
    return field.value if field.kind in INTEGER_KINDS and isinstance(field.value, int) else 0


def validate_arguments(arguments: Table) -> None:
    """Refuse a length that is not a positive integer."""
    field = arguments.get(LENGTH_ARGUMENT)
    if field is not None and _length(field) < 1:
        raise PreconditionFailed(
            f"Invalid argument {value_text(field)}, '{LENGTH_ARGUMENT}' must be a positive integer"
        )


class RecentHistoryExchange(FanoutExchange):
    kind = "x-recent-history"
    needs_headers = True
    cacheable = False
    keeps_messages = True

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name)
        field = arguments.get(LENGTH_ARGUMENT)
        self._history: deque[object] = deque(maxlen=LENGTH_DEFAULT if field is None else _length(field))

    def on_publish(self, message: object, headers: Table) -> None:
        no_store = headers.get(NO_STORE_HEADER)
        if no_store is None or no_store.kind != "t" or not no_store.value:
            self._history.append(message)

    def on_bind(self, binding: Binding) -> list[object]:
        kept = list(self._history)
        if binding.destination.kind == EXCHANGE:
            kept.reverse()
        return kept
