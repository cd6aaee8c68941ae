"""Events of policies and parameters, and of objects that RabbitMQ stores as parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mirrormq.events.connection_events import ACTOR
from mirrormq.events.event_host import EventHost
from mirrormq.events.event_values import Facts
from mirrormq.metadata import records as r
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.policy_matching import governs
from mirrormq.uri_passwords import masked_uri

Event = tuple[str, Facts]

OPERATOR_POLICY = "operator_policy"
"""Component under which operator policies are parameters."""


def policy_events(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    operator = isinstance(record, r.OperatorPolicy)
    whose = {ACTOR: actor, "vhost": record.vhost, "name": record.name}
    if isinstance(change, Deleted):
        if operator:
            yield parameter_cleared(record.vhost, OPERATOR_POLICY, record.name, actor)
        for name in _governed(broker, change):
            yield "queue.policy.cleared", _of_queue(record.vhost, name, actor)
        yield "operator.policy.cleared" if operator else "policy.cleared", whose
        return
    content: Facts = {
        "apply-to": record.apply_to,
        "priority": record.priority,
        "definition": record.definition,
        "pattern": record.pattern,
    }
    if operator:
        yield parameter_set(record.vhost, OPERATOR_POLICY, record.name, content, actor)
    for name in _governed(broker, change):
        yield "queue.policy.updated", {**content, **_of_queue(record.vhost, name, actor)}
    yield "policy.set", {**content, **whose}


def _of_queue(vhost: str, name: str, actor: str) -> Facts:
    return {ACTOR: actor, "type": "rabbit_classic_queue", "vhost": vhost, "name": name}


def _governed(broker: EventHost, change: Change) -> Iterator[str]:
    """Yield the queues whose policy this is, or was until now."""
    record: Any = change.record
    state = broker.metadata.state
    table: dict[Any, Any] = (
        state.operator_policies if isinstance(record, r.OperatorPolicy) else state.policies
    )
    others = [
        policy for policy in table.values() if policy.vhost == record.vhost and policy.name != record.name
    ]
    versions = [record] if isinstance(change, Deleted) else [record, change.before]
    for name in state.queues_of(record.vhost):
        if any(version is not None and governs(version, others, name, "queues") for version in versions):
            yield name


def parameter_events(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    if isinstance(change, Deleted):
        yield parameter_cleared(record.vhost, record.component, record.name, actor)
    else:
        yield parameter_set(record.vhost, record.component, record.name, record.value, actor)


def global_parameter_events(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    value: Facts = {} if isinstance(change, Deleted) else {"value": _masked(record.value)}
    yield "parameter.set", {ACTOR: actor, **value, "name": record.name, "component": "global"}


def parameter_set(vhost: str, component: str, name: str, value: object, actor: str) -> Event:
    facts = {ACTOR: actor, "value": _masked(value), "name": name, "component": component, "vhost": vhost}
    return "parameter.set", facts


def _masked(value: object) -> object:
    """Return a value without the passwords of its URIs: a reader of events need not know them."""
    match value:
        case str():
            return masked_uri(value)
        case dict():
            return {key: _masked(each) for key, each in value.items()}
        case list():
            return [_masked(each) for each in value]
    return value


def parameter_cleared(vhost: str, component: str, name: str, actor: str) -> Event:
    return "parameter.cleared", {ACTOR: actor, "name": name, "component": component, "vhost": vhost}
