"""Definitions of the old cluster: what moves, what changed between exports, what the new cluster lacks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

Entry = dict[str, Any]
Document = dict[str, Any]

KINDS = (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies",
    "exchanges", "queues", "bindings",
)  # fmt: skip
"""Kinds of entries, in the order of dependence."""

_KEYS: dict[str, tuple[str, ...]] = {
    "users": ("name",),
    "vhosts": ("name",),
    "permissions": ("vhost", "user"),
    "topic_permissions": ("vhost", "user", "exchange"),
    "parameters": ("vhost", "component", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
}

BRIDGE_COMPONENTS = ("shovel", "federation-upstream", "federation-upstream-set")
"""Parameters that start to move messages as soon as they exist."""

OWN_GLOBAL_PARAMETERS = (
    "cluster_name", "cluster_tags", "internal_cluster_id", "mqtt_port_to_vhost_mapping",
    "imported_definition_hash_value",
)  # fmt: skip
"""Global parameters that belong to one cluster."""

QUORUM_ARGUMENTS = (
    "x-queue-type", "x-quorum-initial-group-size", "x-delivery-limit", "x-dead-letter-strategy",
    "x-max-in-memory-length", "x-max-in-memory-bytes", "x-queue-leader-locator",
)  # fmt: skip
"""Arguments that a quorum queue loses when it becomes a mirrored queue."""

Key = tuple[str, tuple[str, ...]]


def key_of(kind: str, entry: Entry) -> Key:
    """Return what identifies an entry."""
    return kind, tuple(str(entry.get(name, "")) for name in _KEYS[kind])


def shown(kind: str, entry: Entry) -> str:
    """Return an entry's name for people."""
    if kind == "bindings":
        key = entry.get("routing_key") or ""
        return f"{entry.get('source')} → {entry.get('destination')} ({key}) in {entry.get('vhost')}"
    if kind == "parameters":
        return f"{entry.get('component')} {entry.get('name')} in {entry.get('vhost')}"
    if kind in ("permissions", "topic_permissions"):
        return f"{entry.get('user')} in {entry.get('vhost')}"
    name = str(entry.get("name"))
    return f"{name} in {entry['vhost']}" if "vhost" in entry else name


def entries(document: Document, kind: str) -> list[Entry]:
    """Return the entries of one kind."""
    return [entry for entry in document.get(kind) or [] if isinstance(entry, dict)]


def _vhost_of(kind: str, entry: Entry) -> str | None:
    return entry.get("name") if kind == "vhosts" else entry.get("vhost")


def is_internal(entry: Entry) -> bool:
    """Report whether a federation or another plugin made a queue or exchange for itself."""
    return "x-internal-purpose" in (entry.get("arguments") or {})


class LeftOut(NamedTuple):
    """Entry that is not moved, with its kind."""

    kind: str
    entry: Entry


class Selection(NamedTuple):
    """Part of the old cluster's definitions that moves, and the rest."""

    document: Document
    left_out: list[LeftOut]


def select(document: Document, vhosts: Collection[str], kept_users: Collection[str]) -> Selection:
    """Select what moves. `vhosts` empty: all of them. `kept_users` keep the new cluster's password."""
    moves: Document = {}
    left_out: list[LeftOut] = []
    internal = {
        (entry.get("vhost"), entry.get("name"))
        for kind in ("queues", "exchanges")
        for entry in entries(document, kind)
        if is_internal(entry)
    }
    for kind in KINDS:
        moves[kind] = []
        for entry in entries(document, kind):
            vhost = _vhost_of(kind, entry)
            if vhosts and vhost is not None and vhost not in vhosts:
                continue
            if _moves(kind, entry, internal, kept_users):
                moves[kind].append(entry)
            else:
                left_out.append(LeftOut(kind, entry))
    return Selection(moves, left_out)


def _moves(kind: str, entry: Entry, internal: set[tuple[Any, Any]], kept_users: Collection[str]) -> bool:
    if kind == "parameters":
        return entry.get("component") not in BRIDGE_COMPONENTS
    if kind == "global_parameters":
        return entry.get("name") not in OWN_GLOBAL_PARAMETERS
    if kind == "users":
        return entry.get("name") not in kept_users
    if kind in ("queues", "exchanges"):
        return not is_internal(entry)
    if kind == "bindings":
        ends = {(entry.get("vhost"), entry.get("source")), (entry.get("vhost"), entry.get("destination"))}
        return not ends & internal
    return True


class Change(NamedTuple):
    """Difference between two documents."""

    added: Document
    """Entries that are new or different, as a document."""
    removed: list[tuple[str, Entry]]
    """Entries that exist no more, in the reverse order of dependence."""

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(len(rows) for rows in self.added.values()) + len(self.removed)


def difference(before: Document, after: Document) -> Change:
    """Return what has to be done to get from one document to another."""
    old = dict(_keyed(before))
    new = dict(_keyed(after))
    added: Document = {kind: [] for kind in KINDS}
    for key, entry in new.items():
        if old.get(key) != entry:
            added[key[0]].append(entry)
    removed = [(key[0], entry) for key, entry in old.items() if key not in new]
    return Change({kind: rows for kind, rows in added.items() if rows}, removed[::-1])


def _keyed(document: Document) -> Iterator[tuple[Key, Entry]]:
    for kind in KINDS:
        for entry in entries(document, kind):
            yield key_of(kind, entry), entry


class Difference(NamedTuple):
    """Entry of the old cluster that the new one lacks or has differently."""

    kind: str
    name: str
    reason: str


def import_name(kind: str, entry: Entry) -> str:
    """Return the name under which an import reports an entry."""
    if kind == "bindings":
        return f"{entry.get('source')} -> {entry.get('destination')} ({entry.get('routing_key')})"
    return shown(kind, entry) if kind in ("permissions", "topic_permissions") else str(entry.get("name", ""))


def temporary_queues(document: Document) -> set[tuple[str, str]]:
    """Return the queues that a cluster deletes by itself: with their last consumer, or when unused."""
    return {
        (entry["vhost"], entry["name"])
        for entry in entries(document, "queues")
        if entry.get("auto_delete") or "x-expires" in (entry.get("arguments") or {})
    }


def _is_gone_by_itself(kind: str, entry: Entry, temporary: set[tuple[str, str]]) -> bool:
    if kind == "queues":
        return (entry["vhost"], entry["name"]) in temporary
    return (
        kind == "bindings"
        and entry["destination_type"] == "queue"
        and (entry["vhost"], entry["destination"]) in temporary
    )


def lacking(moves: Document, present: Document, known: Collection[tuple[str, str]]) -> list[Difference]:
    """Return the entries that should be on the new cluster and are not, or are different. `known` are kind
    and name of entries that the plan has reported as not importable. Temporary queues may be missing."""
    found = dict(_keyed(present))
    temporary = temporary_queues(moves)
    differences = []
    for (kind, key), entry in _keyed(moves):
        if (kind, import_name(kind, entry)) in known:
            continue
        other = found.get((kind, key))
        if other is None:
            if not _is_gone_by_itself(kind, entry, temporary):
                differences.append(Difference(kind, shown(kind, entry), "is missing on the new cluster"))
            continue
        form = _FORMS.get(kind)
        if form is not None and form(entry) != form(other):
            differences.append(Difference(kind, shown(kind, entry), "differs on the new cluster"))
    return differences


def _tags(entry: Entry) -> list[str]:
    tags = entry.get("tags") or []
    return (
        sorted(tag.strip() for tag in tags.split(",") if tag.strip())
        if isinstance(tags, str)
        else sorted(tags)
    )


def _queue_form(entry: Entry) -> Any:
    arguments = {k: v for k, v in (entry.get("arguments") or {}).items() if k not in QUORUM_ARGUMENTS}
    return entry.get("durable"), entry.get("auto_delete"), arguments


_FORMS: dict[str, Callable[[Entry], Any]] = {
    "users": lambda entry: (entry.get("password_hash"), entry.get("hashing_algorithm"), _tags(entry)),
    "permissions": lambda entry: (entry.get("configure"), entry.get("write"), entry.get("read")),
    "topic_permissions": lambda entry: (entry.get("write"), entry.get("read")),
    "policies": lambda entry: (
        entry.get("pattern"), entry.get("apply-to"), entry.get("definition"), entry.get("priority"),
    ),
    "parameters": lambda entry: entry.get("value"),
    "exchanges": lambda entry: (
        entry.get("type"), entry.get("durable"), entry.get("auto_delete"), entry.get("internal"),
        entry.get("arguments") or {},
    ),
    "queues": _queue_form,
}  # fmt: skip
"""Fields that must be equal on both clusters, by kind."""


def queue_names(document: Document) -> list[tuple[str, str]]:
    """Return vhost and name of all queues."""
    return [(entry["vhost"], entry["name"]) for entry in entries(document, "queues")]
