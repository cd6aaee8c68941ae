"""Cluster whose nodes run in separate network namespaces, for real network partitions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mirrormq.cli.local_node import LocalNode
from mirrormq.cli.processes import LocalCluster
from mirrormq.config.settings_loader import default_runtime_directory
from mirrormq.testing.cluster import Cluster
from mirrormq.testing.network_namespaces import NetworkNamespaces
from mirrormq.testing.port_forwarding import PortForwarder

AMQP_PORT, MANAGEMENT_PORT, CLUSTER_PORT = 5672, 15672, 25672
"""Ports inside a namespace: equal on all nodes, because every node has its own loopback."""


class PartitionedCluster(Cluster):
    """Cluster with partitions: `part` cuts the network between nodes, `heal` restores it. Clients reach every
    node through a forwarded port all the time."""

    def __init__(self, nodes: int = 3, conf: str = "", mirror_all: bool = False) -> None:
        super().__init__(nodes, conf, mirror_all)
        self.networks = NetworkNamespaces(nodes)
        self._forwarder: PortForwarder | None = None
        self._ports: list[tuple[int, int]] = []

    def _make(self, directory: Path, conf: Path) -> LocalCluster:
        self.networks.make()
        self._forwarder = forwarder = PortForwarder(self.networks.socket)
        nodes = []
        for which, address in enumerate(self.networks.addresses):
            self._ports.append((forwarder.open(which, AMQP_PORT), forwarder.open(which, MANAGEMENT_PORT)))
            name = f"mirror{which + 1}@{address}"
            prefix = self.networks.prefix(which)
            nodes.append(LocalNode(name, AMQP_PORT, MANAGEMENT_PORT, CLUSTER_PORT, prefix=prefix))
        return LocalCluster(directory, nodes, str(conf), str(default_runtime_directory(os.environ)))

    def _clean_up(self) -> None:
        super()._clean_up()
        if self._forwarder is not None:
            self._forwarder.close()
            self._forwarder = None
        self.networks.remove()

    def port(self, index: int = 0) -> int:
        return self._ports[index][0]

    def management_port(self, index: int = 0) -> int:
        return self._ports[index][1]

    def part(self, *sides: Iterable[int]) -> None:
        """Partition the network: only nodes of the same side reach each other; a node in no side is alone."""
        self.networks.part(*sides)

    def heal(self) -> None:
        """Let all nodes reach each other."""
        self.networks.heal()
