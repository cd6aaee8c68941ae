"""`Cluster`: nodes on free ports in a temporary directory, for the length of a `with` block."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrormq.cli.processes import LocalCluster
from mirrormq.testing.port_allocator import free_ports


class Cluster:
    """Cluster of real nodes: `uri(n)` to connect; `kill(n)`, `start(n)` to make a node fail and return."""

    def __init__(self, nodes: int = 1, conf: str = "", mirror_all: bool = False) -> None:
        self._count = nodes
        self._conf = conf
        self._mirror_all = mirror_all
        self._directory: Path | None = None
        self._cluster: LocalCluster | None = None
        self._runtime_before: str | None = None

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="mirrormq-"))
        self._runtime_before = os.environ.get("MIRRORMQ_RUNTIME_DIR")
        os.environ["MIRRORMQ_RUNTIME_DIR"] = str(self._directory / "run")
        try:
            conf = self._directory / "node.conf"
            conf.write_text(self._conf)
            self._cluster = self._make(self._directory, conf)
            self._cluster.start_all()
            if self._mirror_all:
                self._cluster.mirror_all()
        except BaseException:
            self._clean_up()
            raise
        return self

    def _make(self, directory: Path, conf: Path) -> LocalCluster:
        count = self._count
        first = free_ports(3 * count)
        return LocalCluster.create(directory, count, first, first + count, first + 2 * count, conf)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

    def _clean_up(self) -> None:
        if self._cluster is not None:
            self._cluster.stop_all()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._runtime_before is None:
            os.environ.pop("MIRRORMQ_RUNTIME_DIR", None)
        else:
            os.environ["MIRRORMQ_RUNTIME_DIR"] = self._runtime_before

    @property
    def local(self) -> LocalCluster:
        """Processes of the nodes."""
        if self._cluster is None:
            raise RuntimeError("use the cluster inside its `with` block")
        return self._cluster

    @property
    def directory(self) -> Path:
        """Directory of the nodes' data and logs."""
        return self.local.data

    def name(self, index: int = 0) -> str:
        return self.local.nodes[index].name

    def port(self, index: int = 0) -> int:
        return self.local.nodes[index].amqp_port

    def management_port(self, index: int = 0) -> int:
        return self.local.nodes[index].management_port

    def uri(self, index: int = 0, vhost: str = "%2F") -> str:
        """Return an AMQP URI of one node, as user guest."""
        return f"amqp://guest:guest@127.0.0.1:{self.port(index)}/{vhost}"

    def kill(self, index: int) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        self.local.kill(self.name(index))

    def stop(self, index: int) -> None:
        """Send SIGTERM, and wait until the node has stopped cleanly."""
        self.local.stop(self.name(index))

    def freeze(self, index: int) -> None:
        """Send SIGSTOP: the process exists and does nothing."""
        self.local.freeze(self.name(index))

    def thaw(self, index: int) -> None:
        """Send SIGCONT."""
        self.local.resume(self.name(index))

    def ctl(self, *arguments: str, node: int = 0) -> str:
        """Run mirrormqctl on a node; return its output, or raise RuntimeError with its error text."""
        program = Path(sys.executable).with_name("mirrormqctl")
        command = [str(program), "-n", self.name(node), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"mirrormqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, index: int) -> None:
        """Start a killed node again, and wait until it serves clients."""
        self.local.start(self.name(index))
