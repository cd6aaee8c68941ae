"""Link placement: the metadata leader assigns each link to one running node.

Links are derived from the metadata: a provider names the links that the definitions ask for. The leader
compares them with the assignments, and proposes the difference:

    a link without an assignment           → the running node with the fewest links; a static shovel goes
                                             to a node that has its definition
    its node has stopped, failed or drains → another running node, with the next epoch
    an assignment that no definition needs → dropped

It has no state that is not in the metadata. Proposals of two leaders differ in the epoch of each link
(`metadata.link_commands`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mirrormq.bridges.federation_links import FEDERATION
from mirrormq.bridges.wanted_links import LinkProvider, WantedLink
from mirrormq.metadata import commands as c
from mirrormq.metadata.changes import Change
from mirrormq.metadata.link_records import Link, LinkChange, LinkKey
from mirrormq.metadata.records import Node, Parameter
from mirrormq.metadata.state import MetadataState

CHANGES_PER_COMMAND = 500
"""Assignments in one command: about 50 kB."""

SHOVEL = "shovel"
"""Kind of links and component of parameters of shovels."""


def _shovels(state: MetadataState) -> Iterable[WantedLink]:
    return [WantedLink(key) for key in state.parameters if key[1] == SHOVEL]


def _concerns_shovels(change: Change) -> bool:
    return isinstance(change.record, Parameter) and change.record.component == SHOVEL


SHOVELS = LinkProvider(_shovels, _concerns_shovels)

STATIC_SHOVEL = "static-shovel"
"""Kind of links of shovels that nodes have in their settings. Such a link has no vhost."""


def static_shovel_key(name: str) -> LinkKey:
    """Return the key of a static shovel's link."""
    return ("", STATIC_SHOVEL, name)


def static_shovel_nodes(state: MetadataState) -> dict[str, frozenset[str]]:
    """Return the name of each static shovel with the nodes that have it in their settings."""
    nodes: dict[str, set[str]] = {}
    for node in state.nodes.values():
        for name in node.static_shovels:
            nodes.setdefault(name, set()).add(node.name)
    return {name: frozenset(found) for name, found in sorted(nodes.items())}


def _static_shovels(state: MetadataState) -> Iterable[WantedLink]:
    return [
        WantedLink(static_shovel_key(name), among=nodes) for name, nodes in static_shovel_nodes(state).items()
    ]


# The placement compares after each change of a node, so no other change concerns static shovels.
STATIC_SHOVELS = LinkProvider(_static_shovels, lambda change: False)

PROVIDERS: Sequence[LinkProvider] = (SHOVELS, STATIC_SHOVELS, FEDERATION)
"""Providers of all kinds of links."""


class LinkPlacement:
    """Link placement of one node; acts only while the node leads the metadata."""

    def __init__(self, state: MetadataState, providers: Sequence[LinkProvider] = PROVIDERS) -> None:
        self._state = state
        self._providers = providers
        self._leading = False
        self._term = 0
        self._dirty = False

    @property
    def pending(self) -> bool:
        """Whether assignments have to be compared."""
        return self._leading and self._dirty

    def lead(self, leading: bool, term: int = 0) -> None:
        """Start or stop acting as the metadata leader. Proposals of an earlier term may be lost."""
        if leading == self._leading and (term == self._term or not leading):
            return
        self._leading, self._term, self._dirty = leading, term, leading

    def follow(self, change: Change) -> None:
        """Note a change of the metadata that may concern a link."""
        if isinstance(change.record, Node | Link) or any(
            provider.concerns(change) for provider in self._providers
        ):
            self._dirty = True

    def work(self) -> list[c.AssignLinks]:
        """Return the commands that bring the assignments up to date."""
        self._dirty = False
        state = self._state
        nodes = {node.name: node for node in state.nodes.values() if node.running}
        able = [name for name, node in nodes.items() if not node.maintenance] or list(nodes)
        wanted = {link.key: link for provider in self._providers for link in provider.wanted(state)}
        load: Counter[str] = Counter(dict.fromkeys(able, 0))
        homeless: list[WantedLink] = []
        for link in wanted.values():
            assigned = state.links.get(link.key)
            if assigned is not None and _is_well(assigned, nodes, _candidates(link, nodes, able)):
                load[assigned.node] += 1
            else:
                homeless.append(link)
        changes = []
        for link in sorted(homeless):
            node = _least_loaded(load, _candidates(link, nodes, able))
            if not node:
                continue
            load[node] += 1
            before = state.links.get(link.key)
            epoch = 1 if before is None else before.epoch + 1
            changes.append(LinkChange(Link(*link.key, node, nodes[node].incarnation, epoch)))
        dropped = [(link.key, link.epoch) for link in state.links.values() if link.key not in wanted]
        commands = [
            c.AssignLinks(changes[at : at + CHANGES_PER_COMMAND])
            for at in range(0, len(changes), CHANGES_PER_COMMAND)
        ]
        if dropped:
            commands.append(c.AssignLinks([], dropped))
        return commands


def _candidates(link: WantedLink, nodes: dict[str, Node], able: list[str]) -> list[str]:
    """Return the running nodes that may have a link: of those that can run it, first those not in
    maintenance."""
    if link.node:
        return [link.node] if link.node in nodes else []
    among = link.among
    if among is None:
        return able
    return [name for name in able if name in among] or [name for name in nodes if name in among]


def _is_well(assigned: Link, nodes: dict[str, Node], candidates: list[str]) -> bool:
    """Return whether an assignment names a running incarnation of a node that may have the link."""
    node = nodes.get(assigned.node)
    return node is not None and node.incarnation == assigned.incarnation and assigned.node in candidates


def _least_loaded(load: Counter[str], able: list[str]) -> str:
    return min(able, key=lambda name: (load[name], name), default="")
