"""Two RabbitMQ nodes that form a cluster, for mirrored queues."""

from __future__ import annotations

import json
from typing import Self

from tests.brokers.ports import free_ports
from tests.brokers.rabbitmq import RabbitMQ

MIRROR_ALL = {"ha-mode": "all", "ha-sync-mode": "automatic"}


class _PairMember(RabbitMQ):
    """Node with the port mapper and the cookie of the pair, and with statistics."""

    def __init__(self, number: int, port_mapper: int, peers: list[str]) -> None:
        super().__init__(
            configuration="\n".join(
                [
                    "management_agent.disable_metrics_collector = false",
                    "collect_statistics_interval = 1000",
                    "cluster_formation.peer_discovery_backend = classic_config",
                    *(
                        f"cluster_formation.classic_config.nodes.{index} = {peer}"
                        for index, peer in enumerate(peers, 1)
                    ),
                ]
            )
        )
        self._epmd_port = port_mapper
        self.node_name = f"blue{number}@localhost"

    def _write_configuration(self) -> None:
        super()._write_configuration()
        file = self.directory / "rabbitmq.conf"
        file.write_text(file.read_text().replace("management_agent.disable_metrics_collector = true\n", ""))
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text("TWONODESONECOOKIE")
        cookie.chmod(0o400)


class RabbitPair:
    """Two clustered nodes; use as a context manager."""

    def __init__(self) -> None:
        (port_mapper,) = free_ports(1)
        first = "blue1@localhost"
        self.nodes = [
            _PairMember(1, port_mapper, [first]),
            _PairMember(2, port_mapper, [first, "blue2@localhost"]),
        ]

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in reversed(self.nodes):
            node.stop()

    def mirror_all(self) -> None:
        """Mirror every queue of vhost / on both nodes."""
        self.nodes[0].control("set_policy", "ha", ".*", json.dumps(MIRROR_ALL), "--apply-to", "queues")

    def api(self, index: int = 0) -> str:
        """Return the address of a node's HTTP API."""
        return f"http://guest:guest@127.0.0.1:{self.nodes[index].management_port}"

    def uri(self, index: int = 0) -> str:
        """Return the AMQP URI of a node."""
        return f"amqp://guest:guest@127.0.0.1:{self.nodes[index].amqp_port}"

    def port(self, index: int = 0) -> int:
        """Return the AMQP port of a node."""
        return self.nodes[index].amqp_port
