"""Federated exchanges and queues: which upstreams the policies give them, and their links.

A link is one pair of a federated object and an upstream. Its name in the metadata is the pair in JSON.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from mirrormq.bridges.federation_parameters import (
    ALL_UPSTREAMS,
    COMPONENTS,
    UPSTREAM,
    UPSTREAM_SET,
    Upstream,
    upstream_of,
)
from mirrormq.bridges.wanted_links import LinkProvider, WantedLink
from mirrormq.metadata.changes import Change
from mirrormq.metadata.cluster_name import cluster_name, former_names
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Exchange, Parameter, Policy, Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import decode_entries

EXCHANGE_LINK = "federation-exchange"
QUEUE_LINK = "federation-queue"
PATTERN = "federation-upstream-pattern"
POLICY_KEYS = (UPSTREAM, UPSTREAM_SET, PATTERN)
INTERNAL_PURPOSE = "x-internal-purpose"
"""Argument of queues and exchanges of links, which are never federated themselves."""


@dataclass(frozen=True)
class FederatedExchange:
    """Definition of an exchange link."""

    exchange: Exchange
    upstream: Upstream
    policy: str
    cluster_name: str
    former_names: tuple[str, ...] = ()
    """Names that the cluster had before: their internal queues may hold messages."""

    @property
    def vhost(self) -> str:
        return self.exchange.vhost

    @property
    def name(self) -> str:
        return self.exchange.name

    @property
    def upstream_name(self) -> str:
        """Name of the exchange at the upstream."""
        return self.upstream.exchange or self.exchange.name


@dataclass(frozen=True)
class FederatedQueue:
    """Definition of a queue link; facts of the queue that do not change with its master."""

    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: bytes
    upstream: Upstream
    policy: str

    @property
    def upstream_name(self) -> str:
        """Name of the queue at the upstream."""
        return self.upstream.queue or self.name


def link_name(resource: str, upstream: str) -> str:
    """Return the name of a link in the metadata."""
    return msgspec.json.encode([resource, upstream]).decode()


def link_parts(name: str) -> tuple[str, str]:
    """Return the federated object and the upstream of a link's name."""
    resource, upstream = msgspec.json.decode(name, type=list[str])
    return resource, upstream


def link_id(kind: str, definition: FederatedExchange | FederatedQueue) -> str:
    """Return the eight hexadecimal digits that operators use; they survive restarts."""
    parts = (kind, definition.vhost, definition.name, definition.upstream.name, definition.upstream_name)
    return f"{zlib.crc32(msgspec.json.encode(parts)):08x}"


def upstreams(state: MetadataState, vhost: str, definition: dict[str, Any]) -> Iterator[Upstream]:
    """Yield the upstreams that a policy gives; unknown names are ignored, as in RabbitMQ."""
    known = {
        parameter.name: parameter.value
        for parameter in state.parameters.values()
        if parameter.vhost == vhost and parameter.component == UPSTREAM
    }
    if UPSTREAM in definition:
        entries = [{"upstream": definition[UPSTREAM]}]
    elif PATTERN in definition:
        pattern = re.compile(definition[PATTERN])
        entries = [{"upstream": name} for name in sorted(known) if pattern.search(name)]
    elif definition.get(UPSTREAM_SET) == ALL_UPSTREAMS:
        entries = [{"upstream": name} for name in sorted(known)]
    else:
        listed = state.parameters.get((vhost, UPSTREAM_SET, definition.get(UPSTREAM_SET, "")))
        entries = list(listed.value) if listed is not None else []
    for entry in entries:
        overriding = {key: value for key, value in entry.items() if key != "upstream"}
        if entry["upstream"] in known:
            yield upstream_of(entry["upstream"], known[entry["upstream"]], overriding)


def may_federate(record: Exchange | Queue) -> bool:
    """Return whether a policy can federate an object at all."""
    if isinstance(record, Exchange):
        return bool(record.name) and not record.internal
    return not record.exclusive and INTERNAL_PURPOSE not in decode_entries(record.arguments)


def _federating_vhosts(state: MetadataState) -> set[str]:
    """Return the vhosts with a federating policy, so that a cluster without any pays nothing."""
    return {
        policy.vhost
        for policy in state.policies.values()
        if any(key in policy.definition for key in POLICY_KEYS)
    }


def _wanted(state: MetadataState) -> Iterable[WantedLink]:
    matcher = PolicyMatcher(state)
    for vhost in _federating_vhosts(state):
        for exchange in state.exchanges_of(vhost).values():
            definition = matcher.effective(vhost, exchange.name, "exchanges").definition
            if any(key in definition for key in POLICY_KEYS) and may_federate(exchange):
                for upstream in upstreams(state, vhost, definition):
                    yield WantedLink((vhost, EXCHANGE_LINK, link_name(exchange.name, upstream.name)))
        for queue in state.queues_of(vhost).values():
            definition = matcher.effective(vhost, queue.name, "queues").definition
            if any(key in definition for key in POLICY_KEYS) and may_federate(queue):
                for upstream in upstreams(state, vhost, definition):
                    key = (vhost, QUEUE_LINK, link_name(queue.name, upstream.name))
                    # While the queue has no master, no node may run its link. The assignment stays, because
                    # its epoch must grow: a dropped one would begin again with the epoch of a former holder.
                    yield (
                        WantedLink(key, among=frozenset())
                        if queue.waits_for
                        else WantedLink(key, queue.ring.master)
                    )


def _concerns(change: Change) -> bool:
    record = change.record
    if isinstance(record, Parameter):
        return record.component in COMPONENTS
    return isinstance(record, Exchange | Queue | Policy)


FEDERATION = LinkProvider(_wanted, _concerns)


def _upstream_and_policy(
    state: MetadataState,
    key: LinkKey,
    record: Exchange | Queue | None,
    applies_to: Literal["queues", "exchanges"],
) -> tuple[Upstream, str] | None:
    """Return the upstream of a link and the policy that defines it; None if no policy does."""
    if record is None or not may_federate(record):
        return None
    effective = PolicyMatcher(state).effective(record.vhost, record.name, applies_to)
    if not any(policy_key in effective.definition for policy_key in POLICY_KEYS):
        return None
    _, wanted = link_parts(key[2])
    for upstream in upstreams(state, record.vhost, effective.definition):
        if upstream.name == wanted:
            return upstream, effective.policy or ""
    return None


def federated_exchange(state: MetadataState, key: LinkKey) -> FederatedExchange | None:
    """Return the definition of an exchange link; None if no policy defines it."""
    exchange = state.exchanges.get((key[0], link_parts(key[2])[0]))
    found = _upstream_and_policy(state, key, exchange, "exchanges")
    if exchange is None or found is None:
        return None
    return FederatedExchange(exchange, *found, cluster_name(state, ""), former_names(state))


def federated_queue(state: MetadataState, key: LinkKey) -> FederatedQueue | None:
    """Return the definition of a queue link; None if no policy defines it."""
    queue = state.queues.get((key[0], link_parts(key[2])[0]))
    found = _upstream_and_policy(state, key, queue, "queues")
    if queue is None or found is None:
        return None
    return FederatedQueue(queue.vhost, queue.name, queue.durable, queue.auto_delete, queue.arguments, *found)
