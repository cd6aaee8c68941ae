"""Export and import of definitions files, RabbitMQ's JSON document of all declared objects.

An import is a sequence of metadata commands in the order of dependence: users and vhosts before
permissions, queues before bindings. The whole document is checked and turned into commands first, so an
invalid document changes nothing. As in RabbitMQ, an import overwrites users, policies and parameters, and
leaves existing exchanges and queues unchanged.
"""

from __future__ import annotations

import base64
import binascii
import os
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from mirrormq.auth import passwords
from mirrormq.broker.import_placement import ImportPlacement
from mirrormq.config.settings import Settings
from mirrormq.control.argument_tables import decoded_arguments, encoded_arguments
from mirrormq.control.commands.parameters import parameter_command, parameter_rows
from mirrormq.control.commands.policies import checked_policy
from mirrormq.control.control_protocol import EXIT_DATA, ControlError
from mirrormq.control.definitions_json import binding_row, exchange_row, policy_row, queue_row, user_row
from mirrormq.exchanges.exchange_types import KINDS
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.cluster_name import shown_global_parameters
from mirrormq.metadata.state import MetadataState
from mirrormq.metadata.store import MetadataStore


def export_definitions(state: MetadataState, version: str) -> dict[str, Any]:
    """Return all durable declared objects."""
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "users": [user_row(user) for user in state.users.values()],
        "vhosts": [_vhost(vhost) for vhost in state.vhosts.values()],
        "permissions": [msgspec.structs.asdict(record) for record in state.permissions.values()],
        "topic_permissions": [msgspec.structs.asdict(record) for record in state.topic_permissions.values()],
        "parameters": parameter_rows(state),
        "global_parameters": [
            msgspec.structs.asdict(record) for record in shown_global_parameters(state).values()
        ],
        "policies": [policy_row(policy) for policy in state.policies.values()],
        "queues": [
            {**queue_row(queue), "type": "classic"}
            for queue in state.queues.values()
            if queue.survives_restart
        ],
        "exchanges": [exchange_row(record) for record in state.exchanges.values() if _is_exported(record)],
        "bindings": [binding_row(record) for record in state.bindings.values() if _is_lasting(state, record)],
    }


def _vhost(vhost: r.Vhost) -> dict[str, Any]:
    limits = [[name, value] for name, value in vhost.limits.items()]
    metadata = {"description": vhost.description, "tags": vhost.tags}
    return {"name": vhost.name, "limits": limits, "metadata": metadata}


def _is_exported(exchange: r.Exchange) -> bool:
    return bool(exchange.name) and not exchange.name.startswith("amq.") and exchange.durable


def _is_lasting(state: MetadataState, binding: r.Binding) -> bool:
    """Report whether source and destination of a binding both survive a restart."""
    source = state.exchanges.get((binding.vhost, binding.source))
    if binding.destination_kind == "exchange":
        target = state.exchanges.get((binding.vhost, binding.destination))
        return bool(source and source.durable and target and target.durable)
    queue = state.queues.get((binding.vhost, binding.destination))
    return bool(source and source.durable and queue and queue.survives_restart)


def import_definitions(metadata: MetadataStore, document: Any, settings: Settings) -> None:
    """Apply a definitions document; raise ControlError and change nothing if the document is invalid."""
    if not isinstance(document, dict):
        raise ControlError("The definitions must be a JSON object.", EXIT_DATA)
    try:
        wanted = list(_commands(metadata.state, document, settings))
        for command in wanted:
            c.checked(command)  # All commands are checked before the first is written.
    except ControlError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ControlError(
            f"The definitions are invalid: {_reason(error)}. Nothing was imported.", EXIT_DATA
        ) from None
    with metadata.together():
        for command in wanted:
            metadata.write(command)


def _reason(error: Exception) -> str:
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)


def _commands(state: MetadataState, document: dict[str, Any], settings: Settings) -> Iterator[c.Command]:
    scratch = _with_vhosts(state, document)
    places = ImportPlacement(state, scratch, settings, random.randrange)
    for user in document.get("users", []):
        yield c.PutUser(_user_record(user))
    for vhost in document.get("vhosts", []):
        yield c.PutVhost(scratch.vhosts[vhost["name"]])
    for entry in document.get("permissions", []):
        rights = (entry["configure"], entry["write"], entry["read"])
        yield c.PutPermission(r.Permission(entry["user"], _vhost_name(scratch, entry), *rights))
    for entry in document.get("topic_permissions", []):
        target = (entry["user"], _vhost_name(scratch, entry), entry["exchange"])
        yield c.PutTopicPermission(r.TopicPermission(*target, entry["write"], entry["read"]))
    for entry in document.get("global_parameters", []):
        yield c.PutGlobalParameter(r.GlobalParameter(entry["name"], entry["value"]))
    for entry in document.get("parameters", []):
        vhost_name = _vhost_name(scratch, entry)
        command = parameter_command(scratch, vhost_name, entry["component"], entry["name"], entry["value"])
        places.heed(command)
        yield command
    for entry in document.get("policies", []):
        policy = c.PutPolicy(
            checked_policy(
                _vhost_name(scratch, entry),
                entry["name"],
                entry["pattern"],
                entry.get("apply-to", "all"),
                entry["definition"],
                entry.get("priority", 0),
            )
        )
        # The import's own policies determine where its queues are placed.
        places.heed(policy)
        yield policy
    yield from _declarations(scratch, document, places)


def _declarations(
    scratch: MetadataState, document: dict[str, Any], places: ImportPlacement
) -> Iterator[c.Command]:
    for entry in document.get("exchanges", []):
        yield c.PutExchange(_exchange_record(scratch, entry))
    for entry in document.get("queues", []):
        queue = _queue_record(scratch, entry)
        yield c.PutQueue(places.placed(queue, decoded_arguments(queue.arguments)))
    for entry in document.get("bindings", []):
        if entry["destination_type"] not in ("queue", "exchange"):
            raise ValueError(f"a binding's destination_type is '{entry['destination_type']}'")
        yield c.PutBinding(
            r.Binding(
                _vhost_name(scratch, entry),
                entry["source"],
                entry["destination_type"],
                entry["destination"],
                entry["routing_key"],
                encoded_arguments(entry.get("arguments", {})),
            )
        )


def _with_vhosts(state: MetadataState, document: dict[str, Any]) -> MetadataState:
    """Return a scratch state with the vhosts as they will be after the import."""
    scratch = MetadataState()
    for vhost in state.vhosts.values():
        scratch.apply(c.PutVhost(vhost))
    for entry in document.get("vhosts", []):
        before = scratch.vhosts.get(entry["name"], r.Vhost(entry["name"]))
        about = entry.get("metadata") or {}
        description = about.get("description", entry.get("description", before.description))
        tags = about.get("tags", entry.get("tags", before.tags))
        limits = dict(entry.get("limits") or before.limits)
        scratch.apply(
            c.PutVhost(msgspec.structs.replace(before, description=description, tags=tags, limits=limits))
        )
    return scratch


def _vhost_name(scratch: MetadataState, entry: dict[str, Any]) -> str:
    name = str(entry["vhost"])
    if name not in scratch.vhosts:
        raise ControlError(f"Virtual host '{name}' does not exist", EXIT_DATA)
    return name


def _user_record(entry: dict[str, Any]) -> r.User:
    """Build a user record. Tags are a list, or comma-separated text in files of old RabbitMQ versions."""
    tags = entry.get("tags", [])
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    limits = dict(entry.get("limits") or {})
    if "password" in entry and "password_hash" not in entry:
        salt = os.urandom(passwords.salt_bytes())
        password_hash = passwords.hash_password(str(entry["password"]).encode(), salt)
        return r.User(entry["name"], password_hash, passwords.DEFAULT_ALGORITHM, tags, limits)
    algorithm = entry.get("hashing_algorithm", passwords.SHA256)
    password_hash = str(entry["password_hash"])
    if algorithm not in passwords.ALGORITHMS:
        raise ValueError(f"user '{entry['name']}' has the unknown hashing_algorithm '{algorithm}'")
    try:
        base64.b64decode(password_hash, validate=True)
    except binascii.Error:
        raise ValueError(f"the password_hash of user '{entry['name']}' is not base64") from None
    return r.User(entry["name"], password_hash, algorithm, tags, limits)


def _exchange_record(scratch: MetadataState, entry: dict[str, Any]) -> r.Exchange:
    if entry["type"] not in KINDS:
        raise ValueError(f"exchange '{entry['name']}' has the unknown type '{entry['type']}'")
    return r.Exchange(
        _vhost_name(scratch, entry),
        entry["name"],
        entry["type"],
        bool(entry.get("durable", True)),
        bool(entry.get("auto_delete", False)),
        bool(entry.get("internal", False)),
        encoded_arguments(entry.get("arguments", {})),
    )


def _queue_record(scratch: MetadataState, entry: dict[str, Any]) -> r.Queue:
    arguments = entry.get("arguments", {})
    if arguments.get("x-queue-type", "classic") != "classic":
        raise ValueError(f"queue '{entry['name']}' has the type '{arguments['x-queue-type']}', not classic")
    return r.Queue(
        _vhost_name(scratch, entry),
        entry["name"],
        durable=bool(entry.get("durable", True)),
        auto_delete=bool(entry.get("auto_delete", False)),
        arguments=encoded_arguments(arguments),
    )
