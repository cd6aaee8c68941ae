"""Definitions of the old cluster, imported into the new one and followed; removed again by a rollback."""

from __future__ import annotations

from typing import Any

from mirrormq.migration.definition_sets import (
    KINDS,
    Document,
    Entry,
    difference,
    entries,
    key_of,
    queue_names,
    select,
    shown,
)
from mirrormq.migration.migration_records import Plan
from mirrormq.migration.move_ledger import QueueKey
from mirrormq.migration_io.broker_api import NOT_FOUND, ApiRefused, BrokerApi, path
from mirrormq.migration_io.migration_directory import MigrationDirectory

IMPORT = "definitions?skip_unsupported=true&convert=quorum%3Dmirrored"
CONVERTED_POLICIES = "converted-quorum"
RABBITMQ_HASHES = "rabbit_password_hashing_"
NO_PASSWORD = {"password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256"}


class DefinitionFollower:
    """Follower of one migration. `problems` are the definitions that could not be imported or removed."""

    def __init__(self, directory: MigrationDirectory, plan: Plan, old: BrokerApi, new: BrokerApi) -> None:
        self._directory, self._plan, self._old, self._new = directory, plan, old, new
        self.followed: Document = directory.document("followed.json") or {}
        self._imported: set[str] = set((directory.document("imported.json") or {}).get("keys", []))
        self._present: set[QueueKey] | None = None
        """Queues of the new cluster after the last import."""
        self._refused: set[QueueKey] = set()
        """Queues of the new cluster that the old one does not take."""
        self.problems: dict[str, str] = {}
        self.passwords: list[str] = (directory.document("passwords.json") or {}).get("users", [])

    def remember_before(self) -> None:
        """Keep the definitions that the new cluster has before the first import."""
        if self._directory.document("before.json") is None:
            self._directory.write("before.json", self._new.get("definitions"))

    def queues(self) -> list[QueueKey]:
        """Return the queues that move: those of the last import that the new cluster has."""
        if self._present is None:
            self._present = set(queue_names(self._new.get("definitions")))
        return [key for key in queue_names(self.followed) if key in self._present]

    def returning_queues(self) -> list[QueueKey]:
        """Return the queues whose messages go back: also those that clients created on the new cluster.

        A queue that the old cluster refuses is not among them."""
        before = set(queue_names(self._directory.document("before.json") or {}))
        present = select(self._new.get("definitions"), self._plan.vhosts, ()).document
        stay = (before - set(queue_names(self.followed))) | self._refused
        return [key for key in queue_names(present) if key not in stay]

    def vhosts(self) -> set[str]:
        """Return the vhosts that move, and those from which messages go back."""
        moved = {entry["name"] for entry in entries(self.followed, "vhosts")}
        return moved | {vhost for vhost, _ in self.returning_queues()}

    def follow(self) -> int:
        """Import what has changed on the old cluster; return the number of changed entries."""
        plan = self._plan
        wanted = select(self._old.get("definitions"), plan.vhosts, plan.kept_users).document
        change = difference(self.followed, wanted)
        if not change.size:
            return 0
        # Written first: a killed import must not leave entries that nobody knows to have come from here.
        self._imported |= {_key_text(kind, entry) for kind in KINDS for entry in entries(change.added, kind)}
        self._directory.write("imported.json", {"keys": sorted(self._imported)})
        if change.added:
            self._import(change.added, wanted)
        self._remove_all(change.removed)
        self._directory.write("followed.json", wanted)
        self.followed, self._present = wanted, None
        return change.size

    def _import(self, added: Document, wanted: Document) -> None:
        for kind in KINDS:
            for entry in entries(added, kind):
                self.problems.pop(_removal(kind, entry), None)
        document = dict(added)
        if "queues" in document:
            # Converted quorum queues share policies, which the import builds from all of them.
            document |= {kind: wanted.get(kind, []) for kind in ("vhosts", "policies", "queues")}
        result = self._new.post(IMPORT, document) or {}
        for skipped in result.get("skipped", []):
            sentence = f"{skipped['kind']} {skipped['name']}: {skipped['reason']}. {skipped['remedy']}"
            self.problems[f"{skipped['kind']} {skipped['name']}"] = sentence

    def _remove_all(self, removed: list[tuple[str, Entry]]) -> None:
        """Remove entries from the new cluster, in the reverse order of dependence.

        A queue that has messages or consumers there stays, with all that leads to it.
        """
        kept_vhosts = {
            entry["name"] for kind, entry in removed if kind == "vhosts" and not self._vacate(entry)
        }
        kept: set[QueueKey] = set()
        # Queues first: without its bindings a queue that stays would get no more messages.
        for kind, entry in sorted(removed, key=lambda each: each[0] != "queues"):
            if entry["name"] in kept_vhosts if kind == "vhosts" else entry.get("vhost") in kept_vhosts:
                continue
            if kind == "bindings" and _queue_of(entry) in kept:
                continue
            if not self._remove(kind, entry) and kind == "queues":
                kept.add((entry["vhost"], entry["name"]))

    def _vacate(self, vhost: Entry) -> bool:
        """Delete the queues that a vhost still has; return False if one of them is in use."""
        name = vhost["name"]
        try:
            rows = self._new.get(f"{path('queues', name)}?columns=name,messages,consumers")
        except ApiRefused as error:
            if error.status != NOT_FOUND:
                raise
            return True
        used = [row["name"] for row in rows if row.get("messages") or row.get("consumers")]
        # None is deleted while another one is in use: clients of the vhost may need all of them.
        if not used:
            used = [row["name"] for row in rows if not self._remove("queues", {"vhost": name, **row})]
        if used:
            self.problems[_removal("vhosts", vhost)] = (
                f"vhosts {name} cannot be removed: queue '{used[0]}' has messages or consumers on the new "
                "cluster"
            )
        return not used

    def _remove(self, kind: str, entry: Entry) -> bool:
        """Remove an entry from the new cluster; return False if that is refused."""
        target = self._target(kind, entry)
        self.problems.pop(f"{kind} {entry.get('name')}", None)
        if target is None:
            return True
        try:
            self._new.delete(target)
        except ApiRefused as error:
            self.problems[_removal(kind, entry)] = f"{kind} {shown(kind, entry)} cannot be removed: {error}"
            return False
        self.problems.pop(_removal(kind, entry), None)
        return True

    def _target(self, kind: str, entry: Entry) -> str | None:
        name, vhost = entry.get("name", ""), entry.get("vhost", "")
        match kind:
            case "queues":
                return f"{path('queues', vhost, name)}?if-empty=true&if-unused=true"
            case "exchanges":
                return f"{path('exchanges', vhost, name)}?if-unused=true"
            case "bindings":
                return self._binding_target(entry)
            case "policies":
                return path("policies", vhost, name)
            case "parameters":
                return path("parameters", entry["component"], vhost, name)
            case "global_parameters":
                return path("global-parameters", name)
            case "permissions":
                return path("permissions", vhost, entry["user"])
            case "topic_permissions":
                return path("topic-permissions", vhost, entry["user"])
            case "users" | "vhosts":
                return path(kind, name)
        return None

    def _binding_target(self, entry: Entry) -> str | None:
        letter = "q" if entry["destination_type"] == "queue" else "e"
        target = path("bindings", entry["vhost"], "e", entry["source"], letter, entry["destination"])
        try:
            rows: list[dict[str, Any]] = self._new.get(target)
        except ApiRefused:
            return None  # One of its ends has gone, and the binding with it.
        for row in rows:
            if (row["routing_key"], row["arguments"]) == (entry["routing_key"], entry["arguments"]):
                return f"{target}/{path(row['properties_key'])}"
        return None

    # -- rollback ---------------------------------------------------------------------------------

    def undo(self) -> None:
        """Give the new cluster the definitions that it had before the migration."""
        before = self._directory.document("before.json") or {}
        change = difference(before, self._new.get("definitions"))
        existed = {key_of(kind, entry) for kind in KINDS for entry in entries(before, kind)}
        self.problems.clear()
        self._remove_all(
            [
                (kind, entry)
                for kind in reversed(KINDS)
                for entry in entries(change.added, kind)
                if key_of(kind, entry) not in existed and self._is_ours(kind, entry)
            ]
        )
        restored = difference(self._new.get("definitions"), before).added
        if restored:
            self._new.post("definitions", restored)

    def _is_ours(self, kind: str, entry: Entry) -> bool:
        if kind == "policies" and str(entry.get("name", "")).startswith(CONVERTED_POLICIES):
            return True
        return _key_text(kind, entry) in self._imported

    def take_back(self) -> None:
        """Create on the old cluster what clients and operators have created on the new one since.

        Passwords that the new cluster has hashed cannot be taken back: RabbitMQ does not know the algorithm.
        Such users are listed, and new ones are created without a password.
        """
        before = self._directory.document("before.json") or {}
        present = self._new.get("definitions")
        plan = self._plan
        new = select(present, plan.vhosts, plan.kept_users).document
        old = self._old.get("definitions")
        skipped = {key_of(kind, entry) for kind in KINDS for entry in entries(before, kind)}
        skipped |= {key_of(kind, entry) for kind in KINDS for entry in entries(old, kind)}
        created: Document = {}
        for kind in KINDS:
            rows = [entry for entry in entries(new, kind) if key_of(kind, entry) not in skipped]
            if kind == "policies":
                rows = [entry for entry in rows if not str(entry["name"]).startswith(CONVERTED_POLICIES)]
            if rows:
                created[kind] = rows
        known_hashes = {entry["name"]: entry.get("password_hash") for entry in entries(old, "users")}
        lost = [
            entry["name"]
            for entry in entries(new, "users")
            if not str(entry.get("hashing_algorithm", "")).startswith(RABBITMQ_HASHES)
            and (entry["name"] in known_hashes or entry in created.get("users", []))
        ]
        created["users"] = [
            entry | NO_PASSWORD if entry["name"] in lost else entry for entry in created.get("users", [])
        ]
        self.passwords = sorted({*self.passwords, *lost})
        self._directory.write("passwords.json", {"users": self.passwords})
        self._refused.clear()
        for kind, rows in created.items():
            for entry in rows:
                self._create_on_old(kind, entry)

    def _create_on_old(self, kind: str, entry: Entry) -> None:
        name = shown(kind, entry)
        self.problems.pop(f"back {kind} {name}", None)
        try:
            self._old.post("definitions", {kind: [entry]})
        except ApiRefused as error:
            sentence = f"{kind} {name} cannot be created on the old cluster: {error}"
            if kind == "queues":
                self._refused.add((entry["vhost"], entry["name"]))
                sentence += "; its messages stay on the new cluster"
            self.problems[f"back {kind} {name}"] = sentence


def _removal(kind: str, entry: Entry) -> str:
    """Return the key of the problem that an entry could not be removed."""
    return f"remove {kind} {shown(kind, entry)}"


def _queue_of(binding: Entry) -> QueueKey | None:
    """Return the queue to which a binding leads."""
    is_queue = binding["destination_type"] == "queue"
    return (binding["vhost"], binding["destination"]) if is_queue else None


def _key_text(kind: str, entry: Entry) -> str:
    return "\0".join((kind, *key_of(kind, entry)[1]))
