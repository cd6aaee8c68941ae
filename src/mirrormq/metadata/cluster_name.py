"""Name of the cluster: one value on every node, in server properties, API, metrics and federation headers.

An operator sets the global parameter `cluster_name`. Until then the cluster is named after its first node.
That name is stored as well: federation names upstream queues after the cluster, so the name must not change
when the first node leaves. The stored default is internal. Neither lists nor definitions contain it, so that
definitions of one cluster never give its name to another.
"""

from __future__ import annotations

from mirrormq.metadata.commands import PutGlobalParameter
from mirrormq.metadata.records import GlobalParameter
from mirrormq.metadata.state import MetadataState

CLUSTER_NAME = "cluster_name"
DEFAULT_CLUSTER_NAME = "mirrormq_default_cluster_name"
FORMER_CLUSTER_NAMES = "mirrormq_former_cluster_names"
"""Names before the present one. Buffers of federation links at upstreams bear the name of their time."""
FORMER_NAMES_MAX = 8
"""Former names that are kept: links look for the buffers of each when they start."""
INTERNAL = frozenset({DEFAULT_CLUSTER_NAME, FORMER_CLUSTER_NAMES})
"""Global parameters that neither lists nor definitions contain."""


def cluster_name(state: MetadataState, node: str) -> str:
    """Return the cluster's name; `node` is the name of the own node, used before the default is stored."""
    for parameter in (CLUSTER_NAME, DEFAULT_CLUSTER_NAME):
        if (found := state.global_parameters.get(parameter)) is not None:
            return str(found.value)
    return node


def former_names(state: MetadataState) -> tuple[str, ...]:
    """Return the names that the cluster had before, latest first."""
    found = state.global_parameters.get(FORMER_CLUSTER_NAMES)
    return tuple(map(str, found.value)) if found is not None else ()


def renaming_commands(state: MetadataState, node: str, name: str) -> list[PutGlobalParameter]:
    """Return the commands that give the cluster another name, and record the present one."""
    present = cluster_name(state, node)
    commands = [PutGlobalParameter(GlobalParameter(CLUSTER_NAME, name))]
    if present != name:
        former = [present, *(each for each in former_names(state) if each not in (present, name))]
        record = GlobalParameter(FORMER_CLUSTER_NAMES, former[:FORMER_NAMES_MAX])
        commands.insert(0, PutGlobalParameter(record))
    return commands


def naming_commands(state: MetadataState, node: str, configured: str | None) -> list[PutGlobalParameter]:
    """Return the commands of a starting node: the configured name replaces any other, as in RabbitMQ, and the
    first node's name becomes the default."""
    commands = []
    if DEFAULT_CLUSTER_NAME not in state.global_parameters:
        commands.append(PutGlobalParameter(GlobalParameter(DEFAULT_CLUSTER_NAME, node)))
    if configured:
        commands += renaming_commands(state, node, configured)
    return [each for each in commands if state.global_parameters.get(each.record.name) != each.record]


def shown_global_parameters(state: MetadataState) -> dict[str, GlobalParameter]:
    """Return the global parameters without internal ones."""
    return {name: found for name, found in state.global_parameters.items() if name not in INTERNAL}
