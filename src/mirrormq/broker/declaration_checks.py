"""Equivalence of a repeated declaration with the existing object, with RabbitMQ's refusals."""

from __future__ import annotations

from mirrormq.broker.arguments import COMPARED_ARGUMENTS
from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.federation_upstream import MAX_HOPS_ARGUMENT, FederationUpstreamExchange
from mirrormq.metadata import records
from mirrormq.replication.mirrored_exchanges import MIRRORED
from mirrormq.wire.erlang_terms import type_name, value_text
from mirrormq.wire.fields import Field, Table, decode_entries

_INTEGER_KINDS = frozenset("bBsuIilT")

DEFAULTS = {"x-queue-type": Field("S", b"classic"), MIRRORED: Field("t", False)}
"""Arguments whose presence with this value equals their absence."""


def locked_text(vhost: str, name: str) -> str:
    """Return the error text for another connection's exclusive queue."""
    return (
        f"cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original "
        "declaration."
    )


def check_exchange(existing: records.Exchange, wanted: records.Exchange, arguments: Table) -> None:
    """Refuse the declaration of an existing exchange with different properties."""
    where = f"exchange '{existing.name}' in vhost '{existing.vhost}'"
    _check("type", where, _atom(wanted.kind), _atom(existing.kind))
    _check("durable", where, wanted.durable, existing.durable)
    _check("auto_delete", where, wanted.auto_delete, existing.auto_delete)
    _check("internal", where, wanted.internal, existing.internal)
    # RabbitMQ compares only the number of hops of a federation link's exchange.
    is_upstream = existing.kind == FederationUpstreamExchange.kind
    compared = (MAX_HOPS_ARGUMENT,) if is_upstream else ("alternate-exchange", MIRRORED)
    _check_arguments(where, arguments, decode_entries(existing.arguments), compared)


def check_queue(existing: records.Queue, wanted: records.Queue, arguments: Table) -> None:
    """Refuse the declaration of an existing queue with different properties."""
    where = f"queue '{existing.name}' in vhost '{existing.vhost}'"
    _check("durable", where, wanted.durable, existing.durable)
    _check("auto_delete", where, wanted.auto_delete, existing.auto_delete)
    _check_arguments(where, arguments, decode_entries(existing.arguments), COMPARED_ARGUMENTS)


def _check(what: str, where: str, received: str | bool, current: str | bool, *, always: bool = False) -> None:
    if received != current or always:
        raise PreconditionFailed(
            f"inequivalent arg '{what}' for {where}: "
            f"received '{_shown(received)}' but current is '{_shown(current)}'"
        )


def _atom(word: str) -> str:
    """Format a word as an Erlang atom: in quotes if it is not only letters."""
    return word if word.isalpha() else f"'{word}'"


def _shown(value: str | bool) -> str:
    return value if isinstance(value, str) else ("true" if value else "false")


def _check_arguments(where: str, received: Table, current: Table, names: tuple[str, ...]) -> None:
    for name in names:
        new, old, default = received.get(name), current.get(name), DEFAULTS.get(name)
        if not _equivalent(new or default, old or default):
            if new is not None and old is not None:
                _check(name, where, _value(new), _value(old), always=True)
            raise PreconditionFailed(
                f"inequivalent arg '{name}' for {where}: "
                f"received {_described(new)} but current is {_described(old)}"
            )


def _equivalent(new: Field | None, old: Field | None) -> bool:
    if new is None or old is None:
        return new is old
    # As in RabbitMQ, integers of different field types are equivalent if their values are equal.
    same_kind = new.kind == old.kind or (new.kind in _INTEGER_KINDS and old.kind in _INTEGER_KINDS)
    return same_kind and new.value == old.value


def _described(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value '{_value(field)}' of type '{type_name(field)}'"


def _value(field: Field) -> str:
    return (
        field.value.decode("utf-8", "surrogateescape")
        if isinstance(field.value, bytes)
        else value_text(field)
    )
