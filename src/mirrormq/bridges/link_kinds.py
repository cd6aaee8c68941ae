"""Kinds of links: how the metadata defines a link, and the plan that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from mirrormq.bridges.federation_exchange import exchange_plan
from mirrormq.bridges.federation_links import (
    EXCHANGE_LINK,
    QUEUE_LINK,
    FederatedExchange,
    FederatedQueue,
    federated_exchange,
    federated_queue,
)
from mirrormq.bridges.federation_queue import queue_plan
from mirrormq.bridges.link_placement import SHOVEL, STATIC_SHOVEL
from mirrormq.bridges.link_plan import LinkContext, LinkPlan
from mirrormq.bridges.link_status import shown_uri
from mirrormq.bridges.shovel_parameters import ShovelDefinition, definition_of
from mirrormq.bridges.shovel_plan import ShovelTransform, forward_entry, plan_of
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.state import MetadataState


class LinkKind(NamedTuple):
    """Kind of link."""

    define: Callable[[MetadataState, LinkKey], Any]
    """Returns the definition of a link, None if it does not exist. The link restarts when it changes."""
    plan: Callable[[LinkKey, Any, LinkContext], LinkPlan]
    uris: Callable[[Any], tuple[tuple[str, ...], tuple[str, ...]]]
    """Returns the URIs of source and destination."""


def _shovel(state: MetadataState, key: LinkKey) -> ShovelDefinition | None:
    parameter = state.parameters.get(key)
    return None if parameter is None else definition_of(parameter.value)


def _shovel_plan(key: LinkKey, definition: ShovelDefinition, context: LinkContext) -> LinkPlan:
    vhost, _, name = key
    entries: dict[tuple[int, int], Any] = {}

    def forward() -> Any:
        used = context.uri_indexes()
        if used not in entries:
            source, destination = definition.source_uris[used[0]], definition.destination_uris[used[1]]
            entries[used] = forward_entry(
                definition, vhost, name, context.cluster_name, shown_uri(source), shown_uri(destination)
            )
        return entries[used]

    return plan_of(name, definition, ShovelTransform(definition, forward, context.now_s))


def _shovel_uris(definition: ShovelDefinition) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return definition.source_uris, definition.destination_uris


def _federation_uris(
    definition: FederatedExchange | FederatedQueue,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return definition.upstream.uris, (f"amqp:///{quote(definition.vhost, safe='')}",)


def kinds_of_node(static_shovels: Mapping[str, ShovelDefinition]) -> Mapping[str, LinkKind]:
    """Return all kinds of links on a node with these static shovels."""
    static = LinkKind(lambda state, key: static_shovels.get(key[2]), _shovel_plan, _shovel_uris)
    return {**KINDS, STATIC_SHOVEL: static}


KINDS: Mapping[str, LinkKind] = {
    SHOVEL: LinkKind(_shovel, _shovel_plan, _shovel_uris),
    EXCHANGE_LINK: LinkKind(federated_exchange, exchange_plan, _federation_uris),
    QUEUE_LINK: LinkKind(federated_queue, queue_plan, _federation_uris),
}
"""Kinds of links that the metadata defines, the same on every node."""
