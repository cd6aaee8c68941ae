"""Peer watch: repeats peer discovery while a node runs.

It looks for stopped members that discovery no longer shows: the cluster was scaled down. It names them
in the log, or removes them (`cluster_formation.node_cleanup.only_log_warning = false`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrormq.cluster.discovered_peers import DiscoveryFailed, absent_members
from mirrormq.control.control_protocol import ControlError
from mirrormq.runtime.peer_discovery import discovered_peers

if TYPE_CHECKING:
    from mirrormq.runtime.node import Node


class PeerWatch:
    """Repeated discovery of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None
        self._named: set[str] = set()
        """Absent members that the log has named."""

    def start(self) -> None:
        if self._node.settings.discovery.backend != "classic_config":
            self._task = self._node.loop.create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        node, settings = self._node, self._node.settings
        while True:
            joined = node.cluster_node.member.joined
            pause_s = (
                settings.discovery.cleanup_interval_s
                if joined
                else settings.discovery_retry_interval_ms / 1000
            )
            await asyncio.sleep(pause_s)
            try:
                found = await discovered_peers(settings)
            except DiscoveryFailed as error:
                node.log.warning(f"peer discovery failed: {error}")
            else:
                await self._clean_up(found)

    async def _clean_up(self, found: dict[str, str]) -> None:
        node = self._node
        nodes = node.metadata.state.nodes.values()
        absent = absent_members({each.name: each.running for each in nodes}, found)
        self._named &= set(absent)
        for name in absent:
            if node.settings.discovery.cleanup_only_warns:
                if name not in self._named:
                    node.log.warning(
                        f"member {name} is stopped and peer discovery does not show it; "
                        f"remove it with 'mirrormqctl forget_cluster_node {name}' if it does not come back"
                    )
                    self._named.add(name)
                continue
            # One node does it: two would be refused, and log an error.
            if node.serving and node.cluster_node.member.leader == node.settings.name:
                try:
                    await node.cluster.forget(name)
                except ControlError as error:
                    node.log.error(f"removing {name} from the cluster failed: {error.text}")
                else:
                    node.log.warning(f"removed {name} from the cluster: peer discovery does not show it")
