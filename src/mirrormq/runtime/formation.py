"""How a node that belongs to no cluster yet comes to belong to one.

    nobody is named             it is a cluster of its own
    --join names members        it asks them until one lets it in
    a list (classic_config)     the same, but the first by name begins the cluster if there is none

Before the first of a list begins one, it looks whether another one of the list is a member already: it may
have lost its disk, and then it must join its old cluster instead. It looks as long as RabbitMQ does, or
until every one of the list has said no.

Where a node listens for others is known by the name of its host and a port; see docs/configuration.md.
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
    """Other nodes that are named in the settings, and where they are."""
    named = settings.join or settings.classic_config_nodes
    return {seed.name: str(seed.address) for seed in named if seed.name != settings.name}


def default_address(name: str) -> Address:
    """Where a node of this name listens if nobody says otherwise."""
    return Address(name.partition("@")[2], CLUSTER_PORT)


def first_snapshot(settings: Settings) -> Snapshot:
    """What an empty data directory begins with."""
    return Snapshot() if seeds(settings) else founded_alone(settings)


def founded_alone(settings: Settings) -> Snapshot:
    """A new cluster with this node alone in it."""
    return new_cluster(settings.name, random.SystemRandom().randrange)


def next_boot() -> int:
    """A number above what any earlier life of this node had, in whatever data directory, or in a later state
    of this one: what it proposed then is still remembered by its cluster, and must not be taken for what it
    proposes now."""
    return int(time.time())


def found(cluster: ClusterNode, files: ConsensusLog) -> None:
    """Begin a cluster."""
    files.begin(founded_alone(cluster.settings), next_boot())
    cluster.take_part(files)
    boot(cluster.member.metadata, cluster.settings)


async def form(cluster: ClusterNode, files: ConsensusLog, log: Any) -> None:
    """Find a cluster, or begin one; returns when this node has asked to be let in, or is one by itself."""
    settings = cluster.settings
    others = seeds(settings)
    if not others:
        found(cluster, files)
        return
    cluster.seek(others)
    if _begins(settings) and not await _there_is_one(cluster, others):
        log.info("no cluster was found: this node begins one")
        found(cluster, files)
    else:
        log.info(f"this node asks to be let in by {', '.join(sorted(others))}")


def _begins(settings: Settings) -> bool:
    """Is this node the one that begins a cluster if there is none?"""
    names = [seed.name for seed in settings.classic_config_nodes]
    return not settings.join and bool(names) and min(names) == settings.name


async def _there_is_one(cluster: ClusterNode, others: dict[str, str]) -> bool:
    """Is one of the others a member of a cluster already?"""
    settings = cluster.settings
    deadline = time.monotonic() + settings.discovery_retry_limit * settings.discovery_retry_interval_ms / 1000
    without: set[str] = set()
    while time.monotonic() < deadline and without != others.keys():
        for name in sorted(others.keys() & cluster.member.linked - without):
            try:
                told = await cluster.questions.ask(name, Request("membership", [settings.name]))
            except ControlError:
                continue
            if told["joined"]:
                return True
            without.add(name)
        await asyncio.sleep(POLL_S)
    return False
