"""Parameters of shovels: checks with RabbitMQ's texts, and the definition that a checked value means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirrormq.bridges import parameter_checks as check
from mirrormq.bridges.link_plan import DEFAULT_PREFETCH, DEFAULT_RECONNECT_DELAY_S, AckMode
from mirrormq.bridges.parameter_checks import ParameterKey
from mirrormq.wire.erlang_terms import term
from mirrormq.wire.fields import encode_table, table_of

NAME_BYTES_MAX = 255

QUEUE_ARGUMENTS = frozenset(
    {
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-delivery-limit",
        "x-expires", "x-ha-policy", "x-initial-cluster-size", "x-max-age", "x-max-in-memory-bytes",
        "x-max-in-memory-length", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-message-ttl",
        "x-overflow", "x-quorum-initial-group-size", "x-quorum-target-group-size", "x-queue-leader-locator",
        "x-queue-master-locator", "x-queue-mode", "x-queue-type", "x-queue-version",
        "x-single-active-consumer", "x-stream-max-segment-size-bytes",
    }
)  # fmt: skip
CONSUMER_ARGUMENTS = frozenset({"x-priority", "x-cancel-on-ha-failover", "x-stream-offset"})


def _any(_name: str, _value: Any) -> list[str]:
    return []


def _arguments(known: frozenset[str]) -> check.Check:
    """Return the check of a table of arguments: names only, as in RabbitMQ 3.10."""
    keys = [ParameterKey(name, _any) for name in sorted(known)]
    return lambda name, value: check.check_object(name, keys, value)


def _delete_after(name: str, value: Any) -> list[str]:
    if value in ("never", "queue-length"):
        return []
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return []
    wanted = 'a number greater than or equal to 0, "never" or "queue-length"'
    return [f"{name} should be {wanted}, actually was {term(value)}"]


def _short_name(name: str, value: Any) -> list[str]:
    if not isinstance(value, str):
        return check.text(name, value)
    size = len(value.encode())
    return [] if size <= NAME_BYTES_MAX else [f"{name} should be less than 255 bytes, actually was {size}"]


TEXT_PROPERTIES = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type",
    "user_id", "app_id", "cluster_id",
)  # fmt: skip
NUMBER_PROPERTIES = ("delivery_mode", "priority", "timestamp")
HEADERS_PROPERTY = "headers"


def _headers(name: str, value: Any) -> list[str]:
    """Check a table of headers: any names and values that a message can carry."""
    if not isinstance(value, dict):
        return check.check_object(name, (), value)
    try:
        encode_table(table_of(value))
    except (ValueError, TypeError) as error:
        return [f"{name} cannot be headers of a message: {error}"]
    return []


PROPERTY_KEYS = (
    *(ParameterKey(name, check.text) for name in TEXT_PROPERTIES),
    *(ParameterKey(name, check.number) for name in NUMBER_PROPERTIES),
    ParameterKey(HEADERS_PROPERTY, _headers),
)


def _properties(name: str, value: Any) -> list[str]:
    return check.check_object(name, PROPERTY_KEYS, value)


def _texts(name: str, value: Any) -> list[str]:
    """Check a table of texts with any keys."""
    keys = [ParameterKey(key, check.text) for key in value] if isinstance(value, dict) else []
    return check.check_object(name, keys, value)


AMQP_0_9_1, AMQP_1_0 = "amqp091", "amqp10"
"""Protocols of a shovel's ends. Parameters of both are valid, as in RabbitMQ; links run the first only."""

KEEP, DROP = "keep", "drop"
"""Treatment of a message that the destination routes to no queue: it stays in the source, or is dropped."""

_protocol = check.one_of(AMQP_1_0, AMQP_0_9_1)
COMMON_KEYS = (
    ParameterKey("reconnect-delay", check.number),
    ParameterKey("ack-mode", check.one_of("no-ack", "on-publish", "on-confirm")),
    ParameterKey("src-protocol", _protocol),
    ParameterKey("dest-protocol", _protocol),
)
SOURCE_KEYS = {
    AMQP_0_9_1: (
        ParameterKey("src-uri", check.uris, mandatory=True),
        ParameterKey("src-exchange", check.text),
        ParameterKey("src-exchange-key", check.text),
        ParameterKey("src-queue", check.text),
        ParameterKey("src-predeclared", check.boolean),
        ParameterKey("src-consumer-name", _short_name),
        ParameterKey("src-queue-args", _arguments(QUEUE_ARGUMENTS)),
        ParameterKey("src-consumer-args", _arguments(CONSUMER_ARGUMENTS)),
        ParameterKey("prefetch-count", check.number),
        ParameterKey("src-prefetch-count", check.number),
        ParameterKey("delete-after", _delete_after),
        ParameterKey("src-delete-after", _delete_after),
    ),
    AMQP_1_0: (
        ParameterKey("src-uri", check.uris, mandatory=True),
        ParameterKey("src-address", check.text, mandatory=True),
        ParameterKey("src-prefetch-count", check.number),
        ParameterKey("src-delete-after", _delete_after),
    ),
}
DESTINATION_KEYS = {
    AMQP_0_9_1: (
        ParameterKey("dest-uri", check.uris, mandatory=True),
        ParameterKey("dest-exchange", check.text),
        ParameterKey("dest-exchange-key", check.text),
        ParameterKey("dest-queue", _short_name),
        ParameterKey("dest-predeclared", check.boolean),
        ParameterKey("dest-unroutable", check.one_of(KEEP, DROP)),
        ParameterKey("dest-queue-args", _arguments(QUEUE_ARGUMENTS)),
        ParameterKey("add-forward-headers", check.boolean),
        ParameterKey("add-timestamp-header", check.boolean),
        ParameterKey("dest-add-forward-headers", check.boolean),
        ParameterKey("dest-add-timestamp-header", check.boolean),
        ParameterKey("publish-properties", _properties),
        ParameterKey("dest-publish-properties", _properties),
    ),
    AMQP_1_0: (
        ParameterKey("dest-uri", check.uris, mandatory=True),
        ParameterKey("dest-address", check.text, mandatory=True),
        ParameterKey("dest-add-forward-headers", check.boolean),
        ParameterKey("dest-add-timestamp-header", check.boolean),
        ParameterKey("dest-application-properties", _texts),
        ParameterKey("dest-message-annotations", _texts),
        ParameterKey("dest-properties", _texts),
    ),
}
"""Keys of each end, in the order in which RabbitMQ checks them. `src-predeclared`, `src-consumer-name` and
`dest-predeclared` are of later RabbitMQs, `dest-unroutable` is MirrorMQ's."""


def _end_protocol(value: Mapping[str, Any], key: str) -> str:
    """Return the protocol of an end; an invalid one is reported as a fault of its own."""
    return AMQP_1_0 if value.get(key) == AMQP_1_0 else AMQP_0_9_1


def keys_of(given: Mapping[str, Any]) -> tuple[ParameterKey, ...]:
    """Return the known keys of a shovel with the protocols that it names."""
    source, destination = _end_protocol(given, "src-protocol"), _end_protocol(given, "dest-protocol")
    return (*COMMON_KEYS, *SOURCE_KEYS[source], *DESTINATION_KEYS[destination])


def faults(name: str, value: Any) -> list[str]:
    """Return the faults of a shovel's value; an empty list: it is valid."""
    given: Mapping[str, Any] = value if isinstance(value, dict) else {}
    source, destination = _end_protocol(given, "src-protocol"), _end_protocol(given, "dest-protocol")
    found = []
    if isinstance(value, dict) or value == []:
        if source == AMQP_0_9_1:
            found += _source_faults(given)
        if destination == AMQP_0_9_1:
            found += _destination_faults(given)
    return found + check.check_object(name, keys_of(given), value)


def _source_faults(value: Mapping[str, Any]) -> list[str]:
    found = []
    if "src-exchange" in value and "src-queue" in value:
        found.append("Cannot specify 'src-exchange' and 'src-queue'")
    elif "src-exchange" not in value and "src-queue" not in value:
        found.append("Must specify 'src-exchange' or 'src-queue'")
    if value.get("ack-mode") == "no-ack" and check.is_number(_newer(value, "src-", "delete-after", "never")):
        found.append("Cannot specify 'no-ack' and numerical 'delete-after'")
    return found


def _destination_faults(value: Mapping[str, Any]) -> list[str]:
    if "dest-exchange" in value and "dest-queue" in value:
        return ["Cannot specify 'dest-exchange' and 'dest-queue'"]
    return []


def _newer(value: Mapping[str, Any], prefix: str, name: str, default: Any) -> Any:
    """Return the value of a key with an old name; the new name wins."""
    return value.get(prefix + name, value.get(name, default))


@dataclass(frozen=True)
class ShovelDefinition:
    """Checked value of a shovel, with defaults filled in."""

    source_uris: tuple[str, ...]
    destination_uris: tuple[str, ...]
    source_protocol: str = AMQP_0_9_1
    destination_protocol: str = AMQP_0_9_1
    source_address: str | None = None
    """Address of an AMQP 1.0 end."""
    destination_address: str | None = None
    source_queue: str | None = None
    source_exchange: str | None = None
    source_exchange_key: str = ""
    source_predeclared: bool = False
    """The source's queue must exist."""
    source_queue_arguments: Mapping[str, Any] = field(default_factory=dict)
    consumer_tag: str = ""
    consumer_arguments: Mapping[str, Any] = field(default_factory=dict)
    prefetch: int = DEFAULT_PREFETCH
    limit: int | None = None
    limit_to_ready: bool = False
    destination_queue: str | None = None
    destination_predeclared: bool = False
    """The destination's queue must exist."""
    drops_unroutable: bool = False
    destination_exchange: str | None = None
    destination_exchange_key: str | None = None
    destination_queue_arguments: Mapping[str, Any] = field(default_factory=dict)
    publish_properties: Mapping[str, Any] = field(default_factory=dict)
    add_forward_headers: bool = False
    add_timestamp_header: bool = False
    ack_mode: AckMode = AckMode.ON_CONFIRM
    reconnect_delay_s: float = DEFAULT_RECONNECT_DELAY_S


def definition_of(value: Mapping[str, Any]) -> ShovelDefinition:
    """Return the definition of a checked value."""
    delete_after = _newer(value, "src-", "delete-after", "never")
    return ShovelDefinition(
        source_uris=tuple(check.uri_list(value["src-uri"])),
        destination_uris=tuple(check.uri_list(value["dest-uri"])),
        source_protocol=_end_protocol(value, "src-protocol"),
        destination_protocol=_end_protocol(value, "dest-protocol"),
        source_address=value.get("src-address"),
        destination_address=value.get("dest-address"),
        source_queue=value.get("src-queue"),
        source_exchange=value.get("src-exchange"),
        source_exchange_key=value.get("src-exchange-key", ""),
        source_predeclared=value.get("src-predeclared", False),
        consumer_tag=value.get("src-consumer-name", ""),
        source_queue_arguments=dict(value.get("src-queue-args") or {}),
        consumer_arguments=dict(value.get("src-consumer-args") or {}),
        prefetch=max(0, int(_newer(value, "src-", "prefetch-count", DEFAULT_PREFETCH))),
        limit=int(delete_after) if check.is_number(delete_after) else None,
        limit_to_ready=delete_after == "queue-length",
        destination_queue=value.get("dest-queue"),
        destination_predeclared=value.get("dest-predeclared", False),
        drops_unroutable=value.get("dest-unroutable") == DROP,
        destination_exchange=value.get("dest-exchange"),
        destination_exchange_key=value.get("dest-exchange-key"),
        destination_queue_arguments=dict(value.get("dest-queue-args") or {}),
        publish_properties=dict(_newer(value, "dest-", "publish-properties", {}) or {}),
        add_forward_headers=_newer(value, "dest-", "add-forward-headers", False),
        add_timestamp_header=_newer(value, "dest-", "add-timestamp-header", False),
        ack_mode=AckMode(value.get("ack-mode", AckMode.ON_CONFIRM.value)),
        reconnect_delay_s=float(value.get("reconnect-delay", DEFAULT_RECONNECT_DELAY_S)),
    )
