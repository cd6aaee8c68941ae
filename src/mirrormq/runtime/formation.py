"""Cluster formation: how a node without a cluster joins one or creates one.

    no node is configured       the node creates a cluster of one
    --join names members        the node asks them until one admits it
    a list (classic_config)     as with --join, but the first node by name creates the cluster if none exists

Before the first node of a list creates a cluster, it checks whether another node of the list is a member
already. It may have lost its disk, and then it must join its old cluster instead. It checks as long as
RabbitMQ does, or until every node of the list has replied that it is no member.

Other nodes know a node's cluster listener by host name and port; see docs/configuration.md.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

from mirrormq.cluster.bootstrap import new_cluster
from mirrormq.config.settings import CLUSTER_PORT, Address, Settings
from mirrormq.consensus import Snapshot
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.runtime.first_boot import boot

if TYPE_CHECKING:
    from mirrormq.runtime.cluster_node import ClusterNode
    from mirrormq.storage.consensus_log import ConsensusLog

POLL_S = 0.1


def seeds(settings: Settings) -> dict[str, str]:
    """Return the other nodes that the settings name, with their addresses."""
    named = settings.join or settings.classic_config_nodes
    return {seed.name: str(seed.address) for seed in named if seed.name != settings.name}


def default_address(name: str) -> Address:
    """Return the default cluster listener address of the node `name`."""
    return Address(name.partition("@")[2], CLUSTER_PORT)


def first_snapshot(settings: Settings) -> Snapshot:
    """Return the metadata snapshot that an empty data directory starts with."""
    return Snapshot() if seeds(settings) else founded_alone(settings)


def founded_alone(settings: Settings) -> Snapshot:
    """Return the snapshot of a new cluster with this node as its only member."""
    return new_cluster(settings.name, random.SystemRandom().randrange)


def next_boot() -> int:
    """Return a boot number above that of every earlier incarnation of this node, in any data directory and
    any restored state of it. The cluster remembers earlier proposals of this node and must not confuse
    them with new ones."""
    return int(time.time())


def found(cluster: ClusterNode, files: ConsensusLog) -> None:
    """Create a cluster with this node as its only member."""
    files.begin(founded_alone(cluster.settings), next_boot())
    cluster.become_member(files)
    boot(cluster.member.metadata, cluster.settings)


async def form(cluster: ClusterNode, files: ConsensusLog, log: Any) -> None:
    """Find a cluster or create one. Return when this node has asked to join, or has created its cluster."""
    settings = cluster.settings
    others = seeds(settings)
    if not others:
        found(cluster, files)
        return
    cluster.seek(others)
    if _is_founder(settings) and not await _cluster_exists(cluster, others):
        log.info("no existing cluster found: this node creates one")
        found(cluster, files)
    else:
        log.info(f"asking to join the cluster of {', '.join(sorted(others))}")


def _is_founder(settings: Settings) -> bool:
    """Return whether this node creates the cluster if none exists."""
    names = [seed.name for seed in settings.classic_config_nodes]
    return not settings.join and bool(names) and min(names) == settings.name


async def _cluster_exists(cluster: ClusterNode, others: dict[str, str]) -> bool:
    """Return whether one of `others` is a member of a cluster already."""
    settings = cluster.settings
    deadline = time.monotonic() + settings.discovery_retry_limit * settings.discovery_retry_interval_ms / 1000
    without_cluster: set[str] = set()
    while time.monotonic() < deadline and without_cluster != others.keys():
        for name in sorted(others.keys() & cluster.member.linked - without_cluster):
            try:
                membership = await cluster.questions.ask(name, Request("membership", [settings.name]))
            except ControlError:
                continue
            if membership["joined"]:
                return True
            without_cluster.add(name)
        await asyncio.sleep(POLL_S)
    return False
