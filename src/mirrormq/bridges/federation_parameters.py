"""Parameters of federation: upstreams and upstream sets, with RabbitMQ's defaults and error texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirrormq.bridges import parameter_checks as check
from mirrormq.bridges.parameter_checks import ParameterKey
from mirrormq.wire.erlang_terms import term

UPSTREAM = "federation-upstream"
UPSTREAM_SET = "federation-upstream-set"
FEDERATION = "federation"
"""Component that RabbitMQ registers without any valid name."""
COMPONENTS = (UPSTREAM, UPSTREAM_SET, FEDERATION)

ALL_UPSTREAMS = "all"
"""Name of the built-in upstream set."""

SHARED_KEYS = (
    ParameterKey("exchange", check.text),
    ParameterKey("queue", check.text),
    ParameterKey("consumer-tag", check.text),
    ParameterKey("prefetch-count", check.number),
    ParameterKey("reconnect-delay", check.number),
    ParameterKey("max-hops", check.number),
    ParameterKey("expires", check.number),
    ParameterKey("message-ttl", check.number),
    ParameterKey("trust-user-id", check.boolean),
    ParameterKey("ack-mode", check.one_of("no-ack", "on-publish", "on-confirm")),
    ParameterKey("resource-cleanup-mode", check.one_of("default", "never")),
    ParameterKey("ha-policy", check.text),
    ParameterKey("bind-nowait", check.boolean),
    ParameterKey("channel-use-mode", check.one_of("multiple", "single")),
    # Of later RabbitMQs: the type of the internal upstream queue.
    ParameterKey("queue-type", check.one_of("classic", "quorum")),
)
"""Keys of an upstream that an entry of a set may override."""

UPSTREAM_KEYS = (ParameterKey("uri", check.uris, mandatory=True), *SHARED_KEYS)
ENTRY_KEYS = (ParameterKey("upstream", check.text, mandatory=True), *SHARED_KEYS)


def faults(component: str, name: str, value: Any) -> list[str]:
    """Return the faults of a parameter's value; an empty list: it is valid."""
    if component == FEDERATION:
        return [f"name not recognised: {term(name)}"]
    if component == UPSTREAM:
        return check.check_object(name, UPSTREAM_KEYS, value)
    entries = [] if value == {} else value
    if not isinstance(entries, list):
        return [f"{name} not a list {term(value)}"]
    found = [fault for entry in entries for fault in check.check_object(name, ENTRY_KEYS, entry)]
    if found:
        return found
    named = [entry["upstream"] for entry in entries]
    twice = sorted({each for each in named if named.count(each) > 1})
    return [f"Upstream {term(each)} is listed more than once in {name}" for each in twice]


RECONNECT_DELAY_S_MIN = 0.1
"""Shortest pause between two attempts. RabbitMQ takes 0 as no pause; only shovels give up at 0."""


@dataclass(frozen=True)
class Upstream:
    """Upstream as one link uses it: the parameter, with the overriding keys of the upstream set."""

    name: str
    uris: tuple[str, ...]
    exchange: str | None = None
    """Upstream exchange; None: named as the federated one."""
    queue: str | None = None
    """Upstream queue; None: named as the federated one."""
    consumer_tag: str = ""
    prefetch: int = 1000
    reconnect_delay_s: float = 5.0
    max_hops: int = 1
    expires_ms: int | None = None
    message_ttl_ms: int | None = None
    trust_user_id: bool = False
    ack_mode: str = "on-confirm"
    cleanup: str = "default"
    bind_nowait: bool = False
    ha_policy: str | None = None
    queue_type: str | None = None


def upstream_of(name: str, parameter: dict[str, Any], overriding: dict[str, Any]) -> Upstream:
    """Return an upstream from the values of its parameter and of an entry of a set."""
    value = {**parameter, **overriding}
    return Upstream(
        name=name,
        uris=tuple(check.uri_list(value["uri"])),
        exchange=value.get("exchange"),
        queue=value.get("queue"),
        consumer_tag=value.get("consumer-tag", f"federation-link-{name}"),
        prefetch=int(value.get("prefetch-count", 1000)),
        reconnect_delay_s=max(RECONNECT_DELAY_S_MIN, float(value.get("reconnect-delay", 5))),
        max_hops=int(value.get("max-hops", 1)),
        expires_ms=_optional_int(value.get("expires")),
        message_ttl_ms=_optional_int(value.get("message-ttl")),
        trust_user_id=value.get("trust-user-id", False),
        ack_mode=value.get("ack-mode", "on-confirm"),
        cleanup=value.get("resource-cleanup-mode", "default"),
        bind_nowait=value.get("bind-nowait", False),
        ha_policy=value.get("ha-policy"),
        queue_type=value.get("queue-type"),
    )


def _optional_int(value: float | None) -> int | None:
    return None if value is None else int(value)
