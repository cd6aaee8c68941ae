"""Arguments of queue.declare and of exchanges: validation, with RabbitMQ's error texts."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.errors import InternalError, PreconditionFailed
from mirrormq.replication.mirrored_exchanges import MIRRORED
from mirrormq.wire.erlang_terms import type_name as type_name
from mirrormq.wire.fields import Field, Table

MILLISECONDS_MAX = 10 * 365 * 86_400_000
"""RabbitMQ's limit for lifetimes: ten years."""

PRIORITY_MAX = 255

COPY_FROM, COPY_ROUTING_KEY = "x-copy-from", "x-copy-routing-key"
"""Arguments of named copies: the queue receives a copy of each message of another queue, if the routing
key matches."""

INTEGER_KINDS = frozenset("bBsuIil")

OF_OTHER_TYPES = frozenset(
    [
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-initial-cluster-size",
        "x-max-age",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-queue-leader-locator",
        "x-quorum-initial-group-size",
        "x-stream-max-segment-size-bytes",
    ]
)
"""Arguments of quorum queues or streams, which classic queues refuse."""


class ArgumentRefused(Exception):
    """Error for an invalid argument; the text is an Erlang term."""


def _integer(field: Field, arguments: Table) -> int:
    if field.kind not in INTEGER_KINDS or not isinstance(field.value, int):
        raise ArgumentRefused(f'"expected integer, got {type_name(field)}"')
    return field.value


def _non_negative(field: Field, arguments: Table) -> None:
    value = _integer(field, arguments)
    if value < 0:
        raise ArgumentRefused(f"{{value_negative,{value}}}")


def _expires(field: Field, arguments: Table) -> None:
    value = _integer(field, arguments)
    if value == 0:
        raise ArgumentRefused("{value_zero,0}")
    _lifetime(field, arguments)


def _lifetime(field: Field, arguments: Table) -> None:
    value = _integer(field, arguments)
    if value < 0:
        raise ArgumentRefused(f"{{value_negative,{value}}}")
    if value > MILLISECONDS_MAX:
        raise ArgumentRefused(f"{{value_too_large,{value}}}")


def _long_string(field: Field, arguments: Table) -> str:
    if field.kind != "S" or not isinstance(field.value, bytes):
        raise ArgumentRefused(f"{{unacceptable_type,{type_name(field)}}}")
    return field.value.decode("utf-8", "surrogateescape")


def _dead_letter_key(field: Field, arguments: Table) -> None:
    _long_string(field, arguments)
    if "x-dead-letter-exchange" not in arguments:
        raise ArgumentRefused("routing_key_but_no_dlx_defined")


def _copy_from(field: Field, arguments: Table) -> None:
    if not _long_string(field, arguments):
        raise ArgumentRefused("copy_from_names_no_queue")


def _copy_key(field: Field, arguments: Table) -> None:
    _long_string(field, arguments)
    if COPY_FROM not in arguments:
        raise ArgumentRefused("copy_routing_key_but_no_copy_from_defined")


def _max_priority(field: Field, arguments: Table) -> None:
    _non_negative(field, arguments)
    if isinstance(field.value, int) and field.value > PRIORITY_MAX:
        raise ArgumentRefused(f"{{max_value_exceeded,{field.value}}}")


def _one_of(*allowed: str, refusal: str) -> Callable[[Field, Table], None]:
    def check(field: Field, arguments: Table) -> None:
        if _long_string(field, arguments) not in allowed:
            raise ArgumentRefused(refusal)

    return check


def _queue_mode(field: Field, arguments: Table) -> None:
    if _long_string(field, arguments) not in ("default", "lazy"):
        raise ArgumentRefused(f"\"unsupported queue mode '{_shown(field)}'\"")


def _single_active(field: Field, arguments: Table) -> None:
    if field.kind != "t":
        raise ArgumentRefused(f"{{unacceptable_type,{type_name(field)}}}")


def _queue_version(field: Field, arguments: Table) -> None:
    _non_negative(field, arguments)
    if field.value not in (1, 2):
        raise ArgumentRefused(f"\"unsupported queue version '{field.value}'\"")


_CHECKS: dict[str, Callable[[Field, Table], None]] = {
    "x-expires": _expires,
    "x-message-ttl": _lifetime,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-max-length": _non_negative,
    "x-max-length-bytes": _non_negative,
    "x-max-priority": _max_priority,
    "x-overflow": _one_of("drop-head", "reject-publish", "reject-publish-dlx", refusal="invalid_overflow"),
    "x-queue-mode": _queue_mode,
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _single_active,
    COPY_FROM: _copy_from,
    COPY_ROUTING_KEY: _copy_key,
}

COMPARED_ARGUMENTS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-master-locator",
    COPY_FROM,
    COPY_ROUTING_KEY,
)
"""Arguments that must be equal when a queue is declared again."""


def validate(vhost: str, name: str, arguments: Table, *, exclusive: bool) -> None:
    """Refuse a new queue with unusable arguments."""
    check_dead_letter_exchange(vhost, name, arguments)
    _check_type(vhost, name, arguments)
    for argument, check in _CHECKS.items():
        field = arguments.get(argument)
        if field is None:
            continue
        try:
            check(field, arguments)
        except ArgumentRefused as refused:
            raise PreconditionFailed(
                f"invalid arg '{argument}' for queue '{name}' in vhost '{vhost}': {refused}"
            ) from None
    refuse_of_other_types(vhost, name, arguments, OF_OTHER_TYPES)
    _check_master_locator(arguments)


def validate_exchange(vhost: str, name: str, arguments: Table) -> None:
    """Refuse a new exchange whose argument for mirroring is not a boolean."""
    field = arguments.get(MIRRORED)
    if field is not None and field.kind != "t":
        raise PreconditionFailed(
            f"invalid arg '{MIRRORED}' for exchange '{name}' in vhost '{vhost}': "
            f"{{unacceptable_type,{type_name(field)}}}"
        )


def _check_type(vhost: str, name: str, arguments: Table) -> None:
    field = arguments.get("x-queue-type")
    if field is None:
        return
    reason = f"{{unacceptable_type,{type_name(field)}}}"
    if field.kind == "S":
        reason = f"\"unsupported queue type '{_shown(field)}'\""
    if field.kind != "S" or field.value != b"classic":
        raise PreconditionFailed(
            f"invalid arg 'x-queue-type' for queue '{name}' in vhost '{vhost}': {reason}"
        )


def refuse_of_other_types(vhost: str, name: str, arguments: Table, foreign: frozenset[str]) -> None:
    """Refuse arguments of queue types other than classic."""
    for argument in arguments:
        if argument in foreign:
            raise PreconditionFailed(
                f"invalid arg '{argument}' for queue '{name}' in vhost '{vhost}' "
                "of queue type rabbit_classic_queue"
            )


def _check_master_locator(arguments: Table) -> None:
    """Raise InternalError for an unknown locator: RabbitMQ crashes on it."""
    field = arguments.get("x-queue-master-locator")
    if field is not None and field.value not in (b"min-masters", b"client-local", b"random"):
        raise InternalError


def check_nameless(arguments: Table) -> None:
    """Check that the server may choose the name: only for classic queues. RabbitMQ crashes on an unknown
    type."""
    field = arguments.get("x-queue-type")
    if field is None or field.value == b"classic":
        return
    if field.value in (b"quorum", b"stream"):
        raise PreconditionFailed(f"Cannot declare a server-named queue for type rabbit_{_shown(field)}_queue")
    raise InternalError


def check_dead_letter_exchange(vhost: str, name: str, arguments: Table) -> None:
    """Refuse an exchange name that is not a string. RabbitMQ checks this before all other arguments."""
    field = arguments.get("x-dead-letter-exchange")
    if field is not None and field.kind != "S":
        raise PreconditionFailed(
            f"invalid type '{type_name(field)}' for arg 'x-dead-letter-exchange' "
            f"in queue '{name}' in vhost '{vhost}'"
        )


def _shown(field: Field) -> str:
    return field.value.decode("utf-8", "surrogateescape") if isinstance(field.value, bytes) else ""
