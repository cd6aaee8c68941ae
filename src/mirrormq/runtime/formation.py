"""Cluster formation: how a node without a cluster joins one or creates one.

    no node is configured       the node creates a cluster of one
    --join names members        the node asks them until one admits it
    a list (classic_config)     as with --join, but the first node by name creates the cluster if none exists
    discovery (dns, k8s)        as with a list, which discovery returns (`cluster.discovered_peers`)

Before the first node of a list creates a cluster, it checks whether another node of the list is a member
already. It may have lost its disk, and then it must join its old cluster instead. It checks as long as
RabbitMQ does, or until every node of the list has replied that it is no member.

Other nodes know a node's cluster listener by host name and port; see docs/configuration.md.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from mirrormq.cluster.bootstrap import new_cluster
from mirrormq.cluster.discovered_peers import DiscoveryFailed, may_create
from mirrormq.config.settings import CLUSTER_PORT, Address, Settings
from mirrormq.consensus import Snapshot
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.runtime.first_boot import boot
from mirrormq.runtime.log_output import Logger
from mirrormq.runtime.peer_discovery import discovered_peers

if TYPE_CHECKING:
    from mirrormq.runtime.cluster_node import ClusterNode
    from mirrormq.storage.consensus_log import ConsensusLog

POLL_S = 0.1


def seeds(settings: Settings) -> dict[str, str]:
    """Return the other nodes that the settings name, with their addresses."""
    named = settings.join or settings.classic_config_nodes
    return {seed.name: str(seed.address) for seed in named if seed.name != settings.name}


def discovers(settings: Settings) -> bool:
    """Return whether the node finds its peers by DNS or Kubernetes."""
    return settings.discovery.backend != "classic_config" and not settings.join


def default_address(name: str) -> Address:
    """Return the default cluster listener address of the node `name`."""
    return Address(name.partition("@")[2], CLUSTER_PORT)


def first_snapshot(settings: Settings) -> Snapshot:
    """Return the metadata snapshot that an empty data directory starts with."""
    return Snapshot() if seeds(settings) or discovers(settings) else founded_alone(settings)


def founded_alone(settings: Settings) -> Snapshot:
    """Return the snapshot of a new cluster with this node as its only member."""
    return new_cluster(settings.name, random.SystemRandom().randrange)


def next_boot() -> int:
    """Return a boot number above that of every earlier incarnation of this node, in any data directory and
    any restored state of it. The cluster remembers earlier proposals of this node and must not confuse
    them with new ones."""
    return int(time.time())


def found_cluster(cluster: ClusterNode, files: ConsensusLog) -> None:
    """Create a cluster with this node as its only member."""
    files.begin(founded_alone(cluster.settings), next_boot())
    cluster.become_member(files)
    boot(cluster.member.metadata, cluster.settings)


async def form(cluster: ClusterNode, files: ConsensusLog, log: Logger, stopped: asyncio.Event) -> None:
    """Find a cluster or create one. Return when this node has asked to join, or has created its cluster, or
    is being stopped."""
    settings = cluster.settings
    if discovers(settings):
        await _form_discovered(cluster, files, log, stopped)
        return
    others = seeds(settings)
    if not others:
        found_cluster(cluster, files)
        return
    cluster.seek(others)
    if _is_founder(settings) and not await _cluster_exists(cluster, others):
        log.info("no existing cluster found: this node creates one")
        found_cluster(cluster, files)
    else:
        log.info(f"asking to join the cluster of {', '.join(sorted(others))}")


async def _form_discovered(
    cluster: ClusterNode, files: ConsensusLog, log: Logger, stopped: asyncio.Event
) -> None:
    """Repeat discovery until a discovered node has a cluster, or this node may create one."""
    settings = cluster.settings
    target_size, waits_for = settings.discovery.target_size, ""
    window_ends_s = time.monotonic() + _window_s(settings)
    while not stopped.is_set():
        # A seed may have begun to admit this node: half a member cannot start.
        if cluster.member.cluster_id and not cluster.forgotten:
            return
        try:
            found = await discovered_peers(settings)
            reason = f"discovery shows {', '.join(sorted(found)) or 'no node'}"
        except DiscoveryFailed as error:
            found, reason = {}, f"peer discovery failed: {error}"
        others = {name: address for name, address in found.items() if name != settings.name}
        cluster.seek(others)
        exists = await _cluster_exists(cluster, others) or bool(cluster.member.cluster_id)
        # Records of other nodes may come late: only a complete result shortens the window.
        complete = 0 < target_size <= len(found) or time.monotonic() >= window_ends_s
        if not exists and complete and may_create(settings.name, found, target_size):
            log.info("no existing cluster found: this node creates one", discovered=sorted(found))
            found_cluster(cluster, files)
            return
        if reason != waits_for:
            waits_for = reason
            log.info(f"node {settings.name} waits for a cluster to join: {reason}")
        await asyncio.sleep(settings.discovery_retry_interval_ms / 1000)


def _is_founder(settings: Settings) -> bool:
    """Return whether this node creates the cluster if none exists."""
    names = [seed.name for seed in settings.classic_config_nodes]
    return not settings.join and bool(names) and min(names) == settings.name


def _window_s(settings: Settings) -> float:
    """Return how long a node looks for an existing cluster before it creates one."""
    return settings.discovery_retry_limit * settings.discovery_retry_interval_ms / 1000


async def _cluster_exists(cluster: ClusterNode, others: dict[str, str]) -> bool:
    """Return whether one of `others` is a member of a cluster already."""
    settings = cluster.settings
    deadline = time.monotonic() + _window_s(settings)
    without_cluster: set[str] = set()
    while time.monotonic() < deadline and without_cluster != others.keys():
        for name in sorted(others.keys() & cluster.member.linked - without_cluster):
            try:
                membership = await cluster.rpc.ask(name, Request("membership", [settings.name]))
            except ControlError:
                continue
            if membership["joined"]:
                return True
            without_cluster.add(name)
        await asyncio.sleep(POLL_S)
    return False
