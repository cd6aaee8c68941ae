"""Import of definitions files, RabbitMQ's JSON document of all declared objects.

An import is a sequence of metadata commands in the order of dependence: users and vhosts before
permissions, queues before bindings. The whole document is turned into commands first. An entry that cannot be
imported is reported with its reason and a remedy, and the other entries are imported; with `all_or_nothing`
nothing is. As in RabbitMQ, an import overwrites users, policies and parameters, and leaves existing exchanges
and queues unchanged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from mirrormq.auth import passwords
from mirrormq.config.settings import Settings
from mirrormq.control.argument_tables import decoded_arguments, encoded_arguments
from mirrormq.control.commands.parameters import parameter_command
from mirrormq.control.commands.policies import checked_policy
from mirrormq.control.control_protocol import EXIT_DATA, ControlError
from mirrormq.control.definitions_conversion import QuorumConversion
from mirrormq.exchanges.exchange_types import KINDS
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.records import User
from mirrormq.metadata.state import MetadataState
from mirrormq.metadata.store import MetadataStore
from mirrormq.replication.import_placement import ImportPlacement

Entry = dict[str, Any]

IMPORTED_DEFINITIONS = "imported_definition_hash_value"
"""Global parameter with the digest of the last imported file."""


class ImportOptions(NamedTuple):
    """Options of one import."""

    all_or_nothing: bool = False
    """Import nothing if an entry cannot be imported."""
    convert_quorum: bool = False
    """Turn quorum queues into classic queues with a mirroring policy."""


class UnknownVhost(ControlError):
    """Error for an entry of a vhost that does not exist."""


class EndNotImported(ValueError):
    """Error for a binding whose exchange or queue was not imported."""


class UnusableHash(ValueError):
    """Error for a user whose password hash cannot be checked."""


class SkippedEntry(NamedTuple):
    """Entry that was not imported."""

    kind: str
    name: str
    reason: str
    remedy: str
    has_known_text: bool
    """Flag: the reason is RabbitMQ's own error text, which clients may know."""

    def row(self) -> dict[str, str]:
        """Return the entry for replies."""
        return {"kind": self.kind, "name": self.name, "reason": self.reason, "remedy": self.remedy}

    def refusal(self, rest: str) -> ControlError:
        """Return the error of an import that skipped this entry; `rest` is a sentence about the others."""
        if self.has_known_text:
            return ControlError(self.reason, EXIT_DATA)
        return ControlError(f"The definitions are invalid: {self.reason}. {rest}", EXIT_DATA)


class ImportReport(NamedTuple):
    """Result of an import."""

    skipped: list[SkippedEntry]
    converted: list[str]
    """Quorum queues that became mirrored queues, as sentences."""


def import_definitions(
    metadata: MetadataStore, document: Any, settings: Settings, options: ImportOptions
) -> ImportReport:
    """Import a definitions document; ControlError if it is no object, or has an entry that cannot be imported
    and the options ask for all or nothing."""
    plan = plan_import(metadata.state, document, settings, options)
    if plan.skipped and options.all_or_nothing:
        raise plan.skipped[0].refusal("Nothing was imported.")
    with metadata.together():
        for command in plan.commands:
            metadata.write(command)
    return ImportReport(plan.skipped, plan.converted)


def plan_import(
    state: MetadataState, document: Any, settings: Settings, options: ImportOptions
) -> ImportPlan:
    """Return the commands of an import and the entries that cannot be imported; change nothing."""
    if not isinstance(document, dict):
        raise ControlError("The definitions must be a JSON object.", EXIT_DATA)
    plan = ImportPlan(state, settings, options)
    plan.read(document)
    return plan


def is_unchanged(state: MetadataState, content: bytes) -> bool:
    """Return whether this very file was the last one that was imported."""
    imported = state.global_parameters.get(IMPORTED_DEFINITIONS)
    return imported is not None and imported.value == hashlib.sha256(content).hexdigest()


def remember(content: bytes) -> c.Command:
    """Return the command that records a file as imported."""
    digest = hashlib.sha256(content).hexdigest()
    return c.PutGlobalParameter(r.GlobalParameter(IMPORTED_DEFINITIONS, digest))


class ImportPlan:
    """Commands of an import, and the entries that have none."""

    def __init__(self, state: MetadataState, settings: Settings, options: ImportOptions) -> None:
        self.commands: list[c.Command] = []
        self.skipped: list[SkippedEntry] = []
        self.converted: list[str] = []
        self._scratch = MetadataState()
        """Vhosts and policies as they will be after the import."""
        for vhost in state.vhosts.values():
            self._scratch.apply(c.PutVhost(vhost))
        self._places = ImportPlacement(state, self._scratch, settings, random.randrange)
        self._conversion = QuorumConversion(self._scratch) if options.convert_quorum else None
        self._skipped_ends: set[tuple[str, str, str]] = set()
        """Kind, vhost and name of queues and exchanges that were skipped: their bindings are, too."""

    def read(self, document: dict[str, Any]) -> None:
        """Turn all entries into commands, in the order of dependence."""
        for kind, build in self._builders().items():
            entries = document.get(kind, [])
            if not isinstance(entries, list):
                self._skip(kind, {}, TypeError(f"'{kind}' is not a list"))
                continue
            for entry in entries:
                self._read_entry(kind, entry, build)
        if self._conversion is not None:
            self.converted = self._conversion.sentences
            self.commands += self._conversion.commands

    def _builders(self) -> dict[str, Callable[[Entry], Iterator[c.Command]]]:
        return {
            "users": lambda entry: iter((c.PutUser(user_record(entry)),)),
            "vhosts": self._vhost,
            "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "global_parameters": self._global_parameter,
            "parameters": self._parameter,
            "policies": self._policy,
            "exchanges": self._exchange,
            "queues": self._queue,
            "bindings": self._binding,
        }

    def _read_entry(self, kind: str, entry: Any, build: Callable[[Entry], Iterator[c.Command]]) -> None:
        try:
            if not isinstance(entry, dict):
                raise TypeError(f"an entry of '{kind}' is not an object")
            found = list(build(entry))
            for command in found:
                c.checked(command)
        except (ControlError, KeyError, TypeError, ValueError, AttributeError) as error:
            self._skip(kind, entry, error)
        else:
            self.commands += found
            for command in found:
                if isinstance(command, c.PutVhost):
                    self._scratch.apply(command)
                self._places.heed(command)

    def _skip(self, kind: str, entry: Any, error: Exception) -> None:
        entry = entry if isinstance(entry, dict) else {}
        reason = _reason(error)
        self._skipped_ends.add((kind, str(entry.get("vhost")), str(entry.get("name"))))
        known = isinstance(error, ControlError)
        self.skipped.append(SkippedEntry(kind, _name(kind, entry), reason, remedy(kind, entry, error), known))

    # -- entries --------------------------------------------------------------------------------

    def _vhost(self, entry: Entry) -> Iterator[c.Command]:
        before = self._scratch.vhosts.get(entry["name"], r.Vhost(entry["name"]))
        about = entry.get("metadata") or {}
        description = about.get("description", entry.get("description", before.description))
        tags = about.get("tags", entry.get("tags", before.tags))
        limits = dict(entry.get("limits") or before.limits)
        yield c.PutVhost(msgspec.structs.replace(before, description=description, tags=tags, limits=limits))

    def _permission(self, entry: Entry) -> Iterator[c.Command]:
        rights = (entry["configure"], entry["write"], entry["read"])
        yield c.PutPermission(r.Permission(entry["user"], self._vhost_name(entry), *rights))

    def _topic_permission(self, entry: Entry) -> Iterator[c.Command]:
        target = (entry["user"], self._vhost_name(entry), entry["exchange"])
        yield c.PutTopicPermission(r.TopicPermission(*target, entry["write"], entry["read"]))

    def _global_parameter(self, entry: Entry) -> Iterator[c.Command]:
        yield c.PutGlobalParameter(r.GlobalParameter(entry["name"], entry["value"]))

    def _parameter(self, entry: Entry) -> Iterator[c.Command]:
        vhost = self._vhost_name(entry)
        yield parameter_command(self._scratch, vhost, entry["component"], entry["name"], entry["value"])

    def _policy(self, entry: Entry) -> Iterator[c.Command]:
        yield c.PutPolicy(
            checked_policy(
                self._vhost_name(entry),
                entry["name"],
                entry["pattern"],
                entry.get("apply-to", "all"),
                entry["definition"],
                entry.get("priority", 0),
            )
        )

    def _exchange(self, entry: Entry) -> Iterator[c.Command]:
        if entry["type"] not in KINDS:
            raise ValueError(f"exchange '{entry['name']}' has the unknown type '{entry['type']}'")
        yield c.PutExchange(
            r.Exchange(
                self._vhost_name(entry),
                entry["name"],
                entry["type"],
                bool(entry.get("durable", True)),
                bool(entry.get("auto_delete", False)),
                bool(entry.get("internal", False)),
                encoded_arguments(entry.get("arguments", {})),
            )
        )

    def _queue(self, entry: Entry) -> Iterator[c.Command]:
        vhost, arguments = self._vhost_name(entry), entry.get("arguments", {})
        if self._conversion is not None and arguments.get("x-queue-type") == "quorum":
            arguments = self._conversion.convert(vhost, str(entry["name"]), arguments)
        if arguments.get("x-queue-type", "classic") != "classic":
            raise ValueError(
                f"queue '{entry['name']}' has the type '{arguments['x-queue-type']}', not classic"
            )
        queue = r.Queue(
            vhost,
            entry["name"],
            durable=bool(entry.get("durable", True)),
            auto_delete=bool(entry.get("auto_delete", False)),
            arguments=encoded_arguments(arguments),
        )
        yield c.PutQueue(self._places.placed(queue, decoded_arguments(queue.arguments)))

    def _binding(self, entry: Entry) -> Iterator[c.Command]:
        vhost, kind = self._vhost_name(entry), entry["destination_type"]
        if kind not in ("queue", "exchange"):
            raise ValueError(f"a binding's destination_type is '{kind}'")
        for end, name in (("exchanges", entry["source"]), (f"{kind}s", entry["destination"])):
            if (end, vhost, name) in self._skipped_ends:
                raise EndNotImported(f"its {end[:-1]} '{name}' was not imported")
        yield c.PutBinding(
            r.Binding(
                vhost,
                entry["source"],
                kind,
                entry["destination"],
                entry["routing_key"],
                encoded_arguments(entry.get("arguments", {})),
            )
        )

    def _vhost_name(self, entry: Entry) -> str:
        name = str(entry["vhost"])
        if name not in self._scratch.vhosts:
            raise UnknownVhost(f"Virtual host '{name}' does not exist", EXIT_DATA)
        return name


def _reason(error: Exception) -> str:
    if isinstance(error, ControlError):
        return error.text
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)


def _name(kind: str, entry: Entry) -> str:
    """Return the name of an entry for messages."""
    if kind == "bindings":
        return f"{entry.get('source')} -> {entry.get('destination')} ({entry.get('routing_key')})"
    if kind in ("permissions", "topic_permissions"):
        return f"{entry.get('user')} in {entry.get('vhost')}"
    return str(entry.get("name", ""))


OTHERWISE = "Correct the entry and import the file again."


def remedy(kind: str, entry: dict[str, Any], error: Exception) -> str:
    """Return one sentence that says what to do about an entry."""
    if isinstance(error, KeyError):
        return f"Add the key {error} to the entry and import the file again."
    if isinstance(error, UnknownVhost):
        return f"Add it to the file, or run mirrormqctl add_vhost {entry.get('vhost')}; then import again."
    arguments = entry.get("arguments")
    queue_type = arguments.get("x-queue-type") if isinstance(arguments, dict) else None
    if kind == "queues" and queue_type == "quorum":
        return "Import with --convert quorum=mirrored: it becomes a classic queue with a mirroring policy."
    if kind == "queues" and queue_type == "stream":
        return "Streams have no equivalent: declare a classic queue and archive it with mirrormq pipeline."
    if kind == "exchanges" and entry.get("type") not in KINDS:
        return f"Change its type to one of {', '.join(sorted(KINDS))}."
    if isinstance(error, EndNotImported):
        return "Follow the remedy of that entry; then import the file again."
    if isinstance(error, UnusableHash):
        return f"Export the user again, or set a password (mirrormqctl add_user {entry.get('name')})."
    return OTHERWISE


def user_record(entry: dict[str, Any]) -> User:
    """Build a user record. Tags are a list, or comma-separated text in files of old RabbitMQ versions."""
    tags = entry.get("tags", [])
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    limits = dict(entry.get("limits") or {})
    if "password" in entry and "password_hash" not in entry:
        salt = os.urandom(passwords.salt_bytes())
        password_hash = passwords.hash_password(str(entry["password"]).encode(), salt)
        return User(entry["name"], password_hash, passwords.DEFAULT_ALGORITHM, tags, limits)
    algorithm = entry.get("hashing_algorithm", passwords.SHA256)
    password_hash = str(entry["password_hash"])
    if algorithm not in passwords.ALGORITHMS:
        raise UnusableHash(f"user '{entry['name']}' has the unknown hashing_algorithm '{algorithm}'")
    try:
        base64.b64decode(password_hash, validate=True)
    except binascii.Error:
        raise UnusableHash(f"the password_hash of user '{entry['name']}' is not base64") from None
    return User(entry["name"], password_hash, algorithm, tags, limits)
