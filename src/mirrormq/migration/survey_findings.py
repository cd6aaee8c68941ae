"""Survey of a migration: what exists on the old cluster, what differs on the new one, what cannot be moved.

Each finding has a reason and a remedy. A *blocker* stops the migration unless the operator accepts it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from mirrormq.migration.definition_sets import (
    BRIDGE_COMPONENTS,
    Document,
    Selection,
    entries,
    is_internal,
    shown,
)

BLOCKER, CHANGE, NOTE = "blocker", "change", "note"

OTHER_PROTOCOLS = ("MQTT", "STOMP", "AMQP 1.0", "Web MQTT", "Web STOMP", "stream")
LINKS_MAX = 2_000
"""Queues that one migration moves at the same time: each has a connection to both clusters."""

CLIENT_KINDS_SHOWN = 10


class Finding(msgspec.Struct, frozen=True):
    """One line of the survey."""

    severity: str
    kind: str
    name: str
    reason: str
    remedy: str

    @property
    def id(self) -> str:
        """Name that `--accept` takes."""
        return f"{self.kind}:{self.name}"


class OldCluster(NamedTuple):
    """Replies of the old cluster's HTTP API."""

    overview: dict[str, Any]
    definitions: Document
    queues: list[dict[str, Any]]
    connections: list[dict[str, Any]]


class NewCluster(NamedTuple):
    """Replies of the new cluster's HTTP API."""

    definitions: Document
    preview: dict[str, Any]
    """Result of the preview of the import."""
    login: str


def survey(old: OldCluster, new: NewCluster, selection: Selection) -> list[Finding]:
    """Return all findings, blockers first."""
    found = [
        *_versions(old),
        *_not_imported(new.preview),
        *_left_out(selection, new.login),
        *_queues(old),
        *_clients(old),
        *_collisions(new, selection),
    ]
    rank = {BLOCKER: 0, CHANGE: 1, NOTE: 2}
    return sorted(found, key=lambda finding: rank[finding.severity])


def _versions(old: OldCluster) -> list[Finding]:
    version = str(old.overview.get("rabbitmq_version", ""))
    findings = [
        Finding(
            NOTE, "cluster", str(old.overview.get("cluster_name", "old")),
            f"{old.overview.get('product_name') or 'RabbitMQ'} {version}, {len(selection_queues(old))} "
            f"queues with about {_messages(old)} messages",
            "none needed",
        )
    ]  # fmt: skip
    if not version.startswith("3."):
        findings.append(
            Finding(
                CHANGE, "version", version, "the migration is tested with RabbitMQ 3.10",
                "rehearse it with a copy of this cluster first",
            )
        )  # fmt: skip
    return findings


def selection_queues(old: OldCluster) -> list[dict[str, Any]]:
    """Return the queues of the old cluster that are not a plugin's own."""
    return [queue for queue in old.queues if not is_internal(queue)]


def _messages(old: OldCluster) -> int:
    return sum(int(queue.get("messages") or 0) for queue in old.queues)


def _not_imported(preview: dict[str, Any]) -> list[Finding]:
    found = []
    for entry in preview.get("skipped", []):
        severity = BLOCKER if entry["kind"] in ("queues", "exchanges", "vhosts") else CHANGE
        found.append(Finding(severity, entry["kind"], entry["name"], entry["reason"], entry["remedy"]))
    for sentence in preview.get("converted", []):
        name = sentence.split("'")[1] if "'" in sentence else sentence
        found.append(
            Finding(CHANGE, "queues", name, sentence, "none needed; compare its policy after the import")
        )
    return found


def _left_out(selection: Selection, login: str) -> list[Finding]:
    found = []
    for kind, entry in selection.left_out:
        name = shown(kind, entry)
        if kind == "parameters" and entry.get("component") in BRIDGE_COMPONENTS:
            reason = "it would move messages between the clusters while they are migrated"
            remedy = "create it on the new cluster after 'mirrormq migrate finish'"
            found.append(Finding(CHANGE, kind, name, reason, remedy))
        elif kind == "users":
            reason = "the migration logs in to the new cluster as this user, which keeps its password there"
            found.append(
                Finding(CHANGE, kind, name, reason, f"use another login with --to, or set {login}'s password")
            )
        elif kind == "queues":
            reason = "a federation made it for itself; its messages stay"
            remedy = "let the downstream empty it, or create the federation anew after the migration"
            found.append(Finding(CHANGE, kind, name, reason, remedy))
    return found


def _queues(old: OldCluster) -> list[Finding]:
    found = []
    for queue in selection_queues(old):
        name = f"{queue.get('name')} in {queue.get('vhost')}"
        arguments = queue.get("arguments") or {}
        policy = queue.get("effective_policy_definition") or {}
        if queue.get("exclusive") or queue.get("owner_pid_details"):
            reason = "an exclusive queue lives as long as its client's connection"
            found.append(Finding(NOTE, "queues", name, reason, "none needed: the client declares it again"))
        elif queue.get("auto_delete") and queue.get("consumers"):
            reason = "it is deleted with its last consumer, and its messages with it"
            remedy = "none needed if the consumers accept that at each restart; else make it a lasting queue"
            found.append(Finding(CHANGE, "queues", name, reason, remedy))
        if ("x-expires" in arguments or "expires" in policy) and not queue.get("exclusive"):
            reason = "the old cluster deletes it with its messages when its consumers have left for that time"
            remedy = "raise 'expires' by a policy of higher priority until the migration is finished"
            found.append(Finding(CHANGE, "queues", name, reason, remedy))
        if "x-message-ttl" in arguments or "message-ttl" in policy:
            reason = "the time to live of a message begins anew when it moves"
            found.append(
                Finding(NOTE, "queues", name, reason, "none needed, unless consumers rely on exact times")
            )
        if queue.get("state") not in (None, "running", "idle"):
            reason = f"its state is {queue.get('state')}: nobody can consume from it"
            found.append(
                Finding(BLOCKER, "queues", name, reason, "start the node that holds it, or delete the queue")
            )
    if len(old.queues) > LINKS_MAX:
        reason = f"{len(old.queues)} queues move at the same time, each over two connections"
        found.append(
            Finding(
                BLOCKER, "cluster", "queues", reason, f"migrate at most {LINKS_MAX} at a time, by --vhost"
            )
        )
    return found


def _clients(old: OldCluster) -> list[Finding]:
    found = []
    kinds: Counter[tuple[str, str]] = Counter()
    for connection in old.connections:
        protocol = str(connection.get("protocol") or "")
        if any(other in protocol for other in OTHER_PROTOCOLS):
            reason = f"it speaks {protocol}, which MirrorMQ does not"
            remedy = "let it use an AMQP 0-9-1 client, or keep a RabbitMQ for it"
            name = str(connection.get("user_provided_name") or connection.get("name"))
            found.append(Finding(BLOCKER, "connections", name, reason, remedy))
            continue
        properties = connection.get("client_properties") or {}
        kinds[str(properties.get("product") or "unknown"), str(properties.get("version") or "")] += 1
    for (product, version), count in kinds.most_common(CLIENT_KINDS_SHOWN):
        reason = f"{count} connection{'s' * (count != 1)}"
        found.append(Finding(NOTE, "clients", f"{product} {version}".strip(), reason, "none needed"))
    return found


def _collisions(new: NewCluster, selection: Selection) -> list[Finding]:
    present = {(entry["vhost"], entry["name"]) for entry in entries(new.definitions, "queues")}
    found = []
    for entry in entries(selection.document, "queues"):
        if (entry["vhost"], entry["name"]) in present:
            reason = "the new cluster has a queue of this name already"
            remedy = "delete it there if it is left over from an earlier attempt"
            found.append(Finding(CHANGE, "queues", shown("queues", entry), reason, remedy))
    return found
