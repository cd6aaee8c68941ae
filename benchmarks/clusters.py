"""Clusters under measurement: three nodes each, on loopback, every queue mirrored on all of them.

RabbitMQ's nodes share one Erlang port mapper and one cookie and discover each other by `classic_config`. The
benchmark stops only processes that it started, and restarts a killed or frozen node.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

from benchmarks.brokers import (
    RABBITMQ_SCRIPTS,
    START_DEADLINE_S,
    STOP_DEADLINE_S,
    free_port,
    longest_turn_ms,
    rabbitmq_environment,
)
from mirrormq.client_io.blocking_client import connect
from mirrormq.client_io.client_socket import ClientError
from mirrormq.testing import Cluster as LocalCluster

NODES = 3
POLL_S = 0.05
MIRROR_ALL = {"ha-mode": "all", "ha-sync-mode": "automatic"}


class Cluster(Protocol):
    """Cluster of three nodes that can be measured and signalled."""

    name: str

    @property
    def uris(self) -> list[str]:
        """URIs of all nodes."""

    def longest_turn_ms(self) -> float | None:
        """Return the longest turn of its event loops in the last five seconds; None if it tells none."""

    @property
    def pids(self) -> list[int]:
        """Process ids of all nodes."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def uri(self, index: int) -> str: ...
    def node(self, index: int) -> str:
        """Return the name of a node."""

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl or mirrormqctl on the first node that replies."""

    def signal(self, index: int, number: int) -> None: ...
    def restart(self, index: int) -> None:
        """Restart a killed node and wait until it serves clients."""


def wait_until_served(uri: str, deadline_s: float = START_DEADLINE_S) -> None:
    """Wait until a client can open a channel."""
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            connect(uri, STOP_DEADLINE_S).close()
            return
        except ClientError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no node serves clients at {uri}: {error}") from None
            time.sleep(POLL_S)


class RabbitMQCluster:
    """Three nodes of Debian's rabbitmq-server, without plugins."""

    name = "RabbitMQ"

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="bench-rabbitmq-cluster-"))
        self._ports = [free_port() for _ in range(NODES)]
        self._distribution = [free_port() for _ in range(NODES)]
        self._epmd_port = free_port()
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * NODES

    def node(self, index: int) -> str:
        return f"bench{self._ports[index]}@localhost"

    def uri(self, index: int) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self._ports[index]}/%2F"

    @property
    def uris(self) -> list[str]:
        return [self.uri(index) for index in range(NODES)]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes if process is not None]

    def longest_turn_ms(self) -> float | None:
        return None

    def start(self) -> None:
        for index in range(NODES):
            directory = self._base / str(index)
            directory.mkdir()
            cookie = directory / ".erlang.cookie"
            cookie.write_text("BENCHBENCHBENCH")
            cookie.chmod(0o400)
            (directory / "enabled_plugins").write_text("[].\n")
            lines = [
                "cluster_formation.peer_discovery_backend = classic_config",
                *(
                    f"cluster_formation.classic_config.nodes.{n + 1} = {self.node(n)}"
                    for n in range(index + 1)
                ),
            ]
            (directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
            self.restart(index)
        self.control("set_policy", "all", ".*", json.dumps(MIRROR_ALL), "--apply-to", "queues")

    def restart(self, index: int) -> None:
        with open(self._base / str(index) / "output", "ab") as output:
            self._processes[index] = subprocess.Popen(
                [str(RABBITMQ_SCRIPTS / "rabbitmq-server")],
                env=self._environment(index),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until_served(self.uri(index))

    def _environment(self, index: int) -> dict[str, str]:
        return rabbitmq_environment(
            self._base / str(index),
            self.node(index),
            self._ports[index],
            self._distribution[index],
            self._epmd_port,
        )

    def control(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(RABBITMQ_SCRIPTS / "rabbitmqctl"), "-q", "-n", self.node(0), *arguments],
            env=self._environment(0),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {arguments[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def signal(self, index: int, number: int) -> None:
        process = self._processes[index]
        assert process is not None
        os.killpg(process.pid, number)
        if number == signal.SIGKILL:
            process.wait()

    def stop(self) -> None:
        for index, process in enumerate(self._processes):
            if process is not None and process.poll() is None:
                self.signal(index, signal.SIGKILL)
        environment = os.environ | {"ERL_EPMD_PORT": str(self._epmd_port)}
        deadline = time.monotonic() + STOP_DEADLINE_S
        while time.monotonic() < deadline:
            done = subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False)
            if b"living" not in done.stdout + done.stderr:
                break
            time.sleep(POLL_S)
        shutil.rmtree(self._base, ignore_errors=True)


class MirrorMQCluster:
    """Three MirrorMQ nodes."""

    name = "MirrorMQ"

    def __init__(self) -> None:
        self._cluster = LocalCluster(nodes=NODES)

    def node(self, index: int) -> str:
        return self._cluster.name(index)

    def uri(self, index: int) -> str:
        return self._cluster.uri(index)

    @property
    def uris(self) -> list[str]:
        return [self.uri(index) for index in range(NODES)]

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self._cluster.local.nodes if node.pid is not None]

    def longest_turn_ms(self) -> float | None:
        turns_ms = [longest_turn_ms(node.management_port) for node in self._cluster.local.nodes]
        return max([turn_ms for turn_ms in turns_ms if turn_ms is not None], default=None)

    def start(self) -> None:
        self._cluster.__enter__()
        self.control("set_policy", "all", ".*", json.dumps(MIRROR_ALL), "--apply-to", "queues")

    def control(self, *arguments: str) -> str:
        return self._cluster.ctl("-q", *arguments)

    def signal(self, index: int, number: int) -> None:
        if number == signal.SIGKILL:
            self._cluster.kill(index)
        elif number == signal.SIGSTOP:
            self._cluster.freeze(index)
        else:
            self._cluster.thaw(index)

    def restart(self, index: int) -> None:
        self._cluster.start(index)

    def stop(self) -> None:
        self._cluster.__exit__(None, None, None)
