"""Records of a migration's directory: plan, state and status, as JSON files."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.migration.phases import Phase
from mirrormq.migration.survey_findings import BLOCKER, Finding


class ProxyBackend(msgspec.Struct, frozen=True):
    """HAProxy backend of a group of clients, with the servers of both clusters."""

    name: str
    old: list[str]
    new: list[str]


class Proxy(msgspec.Struct, frozen=True):
    """HAProxy in front of both clusters."""

    socket: str
    """Path of its admin socket, or HOST:PORT."""
    consumers: ProxyBackend
    producers: ProxyBackend

    @property
    def is_shared(self) -> bool:
        """Report whether consumers and producers use the same backend."""
        return self.consumers.name == self.producers.name


class Plan(msgspec.Struct, frozen=True):
    """Result of `mirrormq migrate plan`. URIs contain passwords: the file has mode 0600."""

    id: str
    created: str
    old_api: list[str]
    old_amqp: list[str]
    new_api: list[str]
    new_amqp: list[str]
    vhosts: list[str]
    """Vhosts that move; empty: all."""
    kept_users: list[str]
    """Users whose password on the new cluster stays."""
    findings: list[Finding]
    accepted: list[str]
    """Ids of findings that the operator has accepted."""
    proxy: Proxy | None = None

    @property
    def blockers(self) -> list[Finding]:
        """Blockers that are not accepted."""
        return [each for each in self.findings if each.severity == BLOCKER and each.id not in self.accepted]


class Entered(msgspec.Struct, frozen=True):
    """Phase and the time at which it began."""

    phase: Phase
    time: str


class State(msgspec.Struct, frozen=True):
    """Phase of a migration, with its history."""

    history: list[Entered]

    @property
    def phase(self) -> Phase:
        """Present phase."""
        return self.history[-1].phase


class QueueStatus(msgspec.Struct, frozen=True):
    """Link of one queue."""

    vhost: str
    queue: str
    state: str
    reason: str
    left: int
    """Ready messages at the source."""
    moved: int


class Status(msgspec.Struct, frozen=True):
    """Status that `mirrormq migrate run` writes once a second."""

    phase: Phase
    goal: Phase
    time: float
    """Unix time of this status."""
    waiting: str
    """Sentence that says for what the phase waits; empty: nothing."""
    left: int
    """Messages that remain to be moved."""
    moved: int
    """Messages moved in the present direction."""
    rate: float
    """Messages per second, over the last seconds."""
    eta_s: float | None
    queues: list[QueueStatus]
    not_imported: list[str]
    """Definitions that could not be imported or removed, as sentences."""
    passwords: list[str]
    """Users whose password a rollback cannot take back."""
    error: str = ""
    """Last failure of a poll; empty: none."""
    fulfilled: bool = False
    """The duties of the phase hold: clients, for example, can reach the cluster where they should be."""


def eta_s(left: int, rate: float) -> float | None:
    """Return the time until nothing is left; None if nothing moves."""
    if left == 0:
        return 0.0
    return left / rate if rate > 0 else None


def as_json(value: Any) -> str:
    """Return a record as JSON text."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()
