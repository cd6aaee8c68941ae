"""Events of a metadata command: names, order, facts and actor.

They follow RabbitMQ 3.10 to the letter, also where it surprises. Deleting a user emits nothing for its
permissions, while deleting a vhost emits one event for each. Clearing topic permissions on one exchange is
called `permission.deleted`, and clearing a global parameter `parameter.set` without a value. Deleting an
exchange sets and clears a parameter that announces it. Bindings that are deleted with their queue have the
internal user as actor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from mirrormq.events.connection_events import ACTOR
from mirrormq.events.event_host import EventHost
from mirrormq.events.event_values import Facts, printed
from mirrormq.events.parameter_events import (
    Event,
    global_parameter_events,
    parameter_cleared,
    parameter_events,
    parameter_set,
    policy_events,
)
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.store import INTERNAL_USER, WriteResult
from mirrormq.wire.erlang_terms import term
from mirrormq.wire.fields import decode_entries

VHOST_LIMITS = "vhost-limits"
LIMITS = "limits"
DELETING = "exchange-delete-in-progress"

Rights = c.PutPermission | c.PutTopicPermission | c.DeletePermission | c.DeleteTopicPermission
"""Commands whose events depend on the command, not on the changed records."""

_UNQUOTED_ATOM = re.compile(r"[a-z][A-Za-z0-9_@]*\Z")

_PLACES: dict[type, int] = {r.Exchange: 0, r.Binding: 1, r.Queue: 2, r.Vhost: 3}
_PLACES_OF_A_VHOST: dict[type, int] = {
    r.Permission: 0, r.TopicPermission: 1, r.Binding: 2, r.Queue: 3, r.Exchange: 4, r.Vhost: 5,
    r.OperatorPolicy: 6, r.Parameter: 7, r.Policy: 8,
}  # fmt: skip
"""Order in which the changed records of one command are reported; deleting a vhost changes many kinds."""


def events_of(broker: EventHost, written: WriteResult) -> Iterator[Event]:
    """Yield all events of a command."""
    command, changes, actor, _ = written
    if isinstance(command, Rights):
        yield from _rights(broker, command, actor)
        return
    if isinstance(command, c.DeleteExchange) and changes:
        yield _deleting(command.vhost, command.name, actor)
    deletes_vhost = isinstance(command, c.DeleteVhost)
    places = _PLACES_OF_A_VHOST if deletes_vhost else _PLACES
    for change in sorted(changes, key=lambda change: places.get(type(change.record), len(places))):
        if isinstance(command, c.DeleteUser) and not isinstance(change.record, r.User):
            continue
        if type(change.record) in _EVENTS:
            yield from _EVENTS[type(change.record)](
                broker, change, _actor(command, change, actor), deletes_vhost
            )
    if isinstance(command, c.DeleteExchange) and changes:
        yield _deleted(command.vhost, command.name, actor)
    if isinstance(command, c.DeleteVhost) and changes:
        yield "vhost.down", {ACTOR: INTERNAL_USER, "node": broker.settings.name, "name": command.name}


def _actor(command: c.Command, change: Change, actor: str) -> str:
    """Return the actor of a change. The internal user deletes what is deleted together with its queue."""
    record = change.record
    if isinstance(command, c.DeleteQueue) and not isinstance(record, r.Queue):
        return INTERNAL_USER
    to_queue = isinstance(record, r.Binding) and record.destination_kind == "queue"
    return INTERNAL_USER if to_queue and isinstance(command, c.DeleteVhost) else actor


def _rights(broker: EventHost, command: Rights, actor: str) -> Iterator[Event]:
    """Yield the events of permissions, even if the command changed nothing."""
    about = command.record if isinstance(command, c.PutPermission | c.PutTopicPermission) else command
    state = broker.metadata.state
    if about.user not in state.users or about.vhost not in state.vhosts:
        return
    whose = {"vhost": about.vhost, "user": about.user}
    if isinstance(about, r.Permission):
        rights = {"read": about.read, "write": about.write, "configure": about.configure}
        yield "permission.created", {ACTOR: actor, **rights, **whose}
    elif isinstance(about, r.TopicPermission):
        topics = {"read": about.read, "write": about.write, "exchange": about.exchange}
        yield "topic.permission.created", {ACTOR: actor, **topics, **whose}
    else:
        all_topics = isinstance(about, c.DeleteTopicPermission) and about.exchange is None
        yield "topic.permission.deleted" if all_topics else "permission.deleted", {ACTOR: actor, **whose}


def _right_gone(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    name = "permission.deleted" if isinstance(record, r.Permission) else "topic.permission.deleted"
    yield name, {ACTOR: actor, "vhost": record.vhost, "user": record.user}


def _arguments(record: r.Exchange | r.Queue | r.Binding) -> list[str]:
    return printed(decode_entries(record.arguments))


def _exchange(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    if isinstance(change, Deleted):
        if ends:
            yield _deleting(record.vhost, record.name, actor)
        yield "exchange.deleted", {ACTOR: actor, "name": record.name, "vhost": record.vhost}
        if ends:
            yield _deleted(record.vhost, record.name, actor)
    elif change.before is None:
        yield (
            "exchange.created",
            {
                ACTOR: actor,
                "policy": broker.policies.effective(record.vhost, record.name, "exchanges").policy or "",
                "arguments": _arguments(record),
                "internal": record.internal,
                "auto_delete": record.auto_delete,
                "durable": record.durable,
                "type": record.kind,
                "name": record.name,
                "vhost": record.vhost,
            },
        )


def _queue(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    if isinstance(change, Deleted):
        yield "queue.deleted", {ACTOR: actor, "name": record.name, "vhost": record.vhost}
    elif change.before is None:
        yield (
            "queue.created",
            {
                ACTOR: actor,
                "exclusive": record.exclusive,
                "owner_pid": _owner_pid(broker, record),
                "arguments": _arguments(record),
                "auto_delete": record.auto_delete,
                "durable": record.durable,
                "name": record.name,
                "vhost": record.vhost,
            },
        )


def _owner_pid(broker: EventHost, record: r.Queue) -> str:
    vhost = broker.vhosts.get(record.vhost)
    queue = vhost.local_queue(record.name) if vhost is not None else None
    owner: Any = queue.owner if queue is not None else None
    return broker.pids.of_connection(owner) if owner is not None else ""


def _binding(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    yield (
        "binding.deleted" if isinstance(change, Deleted) else "binding.created",
        {
            ACTOR: actor,
            "vhost": record.vhost,
            "arguments": _arguments(record),
            "routing_key": record.routing_key,
            "destination_kind": record.destination_kind,
            "destination_name": record.destination,
            "source_kind": "exchange",
            "source_name": record.source,
        },
    )


def _user(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    who = {ACTOR: actor, "name": record.name}
    if isinstance(change, Deleted):
        yield "user.deleted", who
        return
    before: Any = change.before or r.User(record.name, record.password_hash)
    if change.before is None:
        yield "user.created", who
    elif before.password_hash != record.password_hash:
        yield "user.password.changed" if record.password_hash else "user.password.cleared", who
    if before.tags != record.tags:
        yield "user.tags.set", {ACTOR: actor, "tags": record.tags, "name": record.name}
    about = {"username": record.name, ACTOR: actor, "name": LIMITS}
    changed_limits = {
        name: limit for name, limit in record.limits.items() if before.limits.get(name) != limit
    }
    if changed_limits:
        yield "user.limits.set", {**_backwards(changed_limits), **about}
    if before.limits.keys() - record.limits.keys():
        yield "user.limits.cleared", about


def _vhost(broker: EventHost, change: Change, actor: str, ends: bool) -> Iterator[Event]:
    record: Any = change.record
    if isinstance(change, Deleted):
        yield "vhost.deleted", {ACTOR: actor, "name": record.name}
        if record.limits:
            yield from _limits(record.name, {}, actor)
        return
    before: Any = change.before or r.Vhost(record.name)
    if change.before is None or before.description != record.description:
        yield (
            "vhost.created" if change.before is None else "vhost.updated",
            {
                "tags": record.tags,
                "description": record.description,
                ACTOR: actor,
                "cluster_state": {broker.settings.name: "running"},
                "tracing": record.tracing,
                "metadata": _printed_metadata(record),
                "default_queue_type": "undefined",
                "name": record.name,
            },
        )
    elif before.tags != record.tags:
        yield "vhost.tags.set", {ACTOR: actor, "tags": record.tags, "name": record.name}
    if before.limits != record.limits:
        yield from _limits(record.name, record.limits, actor)


def _printed_metadata(record: r.Vhost) -> str:
    tags = ",".join(map(_atom, record.tags))
    return f"#{{description => {term(record.description)},tags => [{tags}]}}"


def _atom(name: str) -> str:
    return name if _UNQUOTED_ATOM.match(name) else f"'{name}'"


def _limits(vhost: str, limits: dict[str, int], actor: str) -> Iterator[Event]:
    """Yield the events of a vhost's limits, which are a parameter too."""
    if limits:
        yield parameter_set(vhost, VHOST_LIMITS, LIMITS, limits, actor)
        yield "vhost.limits.set", {**_backwards(limits), ACTOR: actor, "name": LIMITS}
    else:
        yield parameter_cleared(vhost, VHOST_LIMITS, LIMITS, actor)
        yield "vhost.limits.cleared", {ACTOR: actor, "name": LIMITS}


def _backwards(values: dict[str, int]) -> Facts:
    return {name: values[name] for name in sorted(values, reverse=True)}


def _deleting(vhost: str, name: str, actor: str) -> Event:
    return parameter_set(vhost, DELETING, name, True, actor)


def _deleted(vhost: str, name: str, actor: str) -> Event:
    return parameter_cleared(vhost, DELETING, name, actor)


_EVENTS: dict[type, Callable[[EventHost, Change, str, bool], Iterator[Event]]] = {
    r.Vhost: _vhost,
    r.User: _user,
    r.Permission: _right_gone,
    r.TopicPermission: _right_gone,
    r.Exchange: _exchange,
    r.Queue: _queue,
    r.Binding: _binding,
    r.Policy: policy_events,
    r.OperatorPolicy: policy_events,
    r.Parameter: parameter_events,
    r.GlobalParameter: global_parameter_events,
}
