"""Peer watch: repeats peer discovery while a node runs.

It looks for stopped members that discovery no longer shows: the cluster was scaled down. It names them
in the log, or removes them (`cluster_formation.node_cleanup.only_log_warning = false`). It never removes a
member whose ordinal is below `target_cluster_size_hint`: that pod comes back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrormq.cluster.discovered_peers import DiscoveryFailed, absent_members, is_expected
from mirrormq.config.settings_loader import load_settings
from mirrormq.control.control_protocol import ControlError
from mirrormq.errors import ConfigurationError
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

    def _target_size(self) -> int:
        """Return the target size as the settings file has it now: scaling down does not restart the nodes."""
        settings = self._node.settings
        try:
            return load_settings(conf=settings.settings_file).discovery.target_size
        except ConfigurationError as error:
            self._node.log.warning(f"the target size of the cluster is not read again: {error}")
            return settings.discovery.target_size

    async def _clean_up(self, found: dict[str, str]) -> None:
        node = self._node
        nodes = node.metadata.state.nodes.values()
        absent = absent_members({each.name: each.running for each in nodes}, found)
        self._named &= set(absent)
        target_size = self._target_size() if absent else 0
        for name in absent:
            if node.settings.discovery.cleanup_only_warns or is_expected(name, target_size):
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
