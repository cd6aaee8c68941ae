"""Two clusters, HAProxy in front of both, and `mirrormq migrate` between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirrormq.migration_io.migration_directory import MigrationDirectory
from mirrormq.testing import Cluster
from tests.brokers.ports import free_ports
from tests.brokers.rabbitmq_pair import RabbitPair
from tests.cli.test_balancing import haproxy
from tests.management.http import Client
from tests.waiting import until

PHASE_S = 900.0
"""Time limit of a phase: a busy machine moves some hundred messages per second."""

PROGRAM = str(Path(sys.executable).with_name("mirrormq"))

PROXY = """\
global
    stats socket {socket} mode 600 level admin
    maxconn 500
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    retries 3
    option redispatch 1
"""
GROUP = """\
frontend {name}-in
    bind 127.0.0.1:{port}
    default_backend {name}
backend {name}
{servers}
"""


class MigrationStand:
    """One migration: its directory, its `run` process, and commands."""

    def __init__(self, directory: Path, blue: RabbitPair, green: Cluster) -> None:
        self.base, self.blue, self.green = directory, blue, green
        self.directory = directory / "migration"
        self.socket = directory / "haproxy.sock"
        self.consumer_port, self.producer_port = free_ports(2)
        self.process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    @property
    def blue_api(self) -> Client:
        return Client(self.blue.nodes[0].management_port)

    @property
    def green_api(self) -> Client:
        return Client(self.green.management_port(0))

    @contextmanager
    def proxy(self) -> Iterator[None]:
        """Run HAProxy."""
        with haproxy(self.proxy_text(), self.producer_port, self.base):
            yield

    def proxy_text(self) -> str:
        """Return HAProxy's file: two backends, in which the servers of the new cluster are disabled."""
        lines = [f"    server blue{n} 127.0.0.1:{self.blue.port(n)}" for n in (0, 1)]
        lines += [f"    server green{n} 127.0.0.1:{self.green.port(n)} disabled" for n in (0, 1)]
        text = PROXY.format(socket=self.socket)
        for name, port in (("consumers", self.consumer_port), ("producers", self.producer_port)):
            text += GROUP.format(name=name, port=port, servers="\n".join(lines))
        return text

    def plan_words(self) -> list[str]:
        """Return the options of `plan` that name both clusters."""
        words = []
        for n in (0, 1):
            words += ["--from", self.blue.api(n), "--from-amqp", self.blue.uri(n)]
            words += ["--to", f"http://guest:guest@127.0.0.1:{self.green.management_port(n)}"]
            words += ["--to-amqp", f"amqp://guest:guest@127.0.0.1:{self.green.port(n)}"]
        return words

    def proxy_words(self) -> list[str]:
        """Return the options of `plan` that name the proxy."""
        return ["--haproxy", str(self.socket), "--consumers", "consumers", "--producers", "producers"]

    def command(self, *words: str, code: int = 0) -> str:
        """Run one command to its end; return its output, of both streams."""
        done = subprocess.run(
            [PROGRAM, "migrate", *words, "--dir", str(self.directory)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}{self.output()}"
        return done.stdout

    def start(self) -> None:
        """Start `mirrormq migrate run`."""
        with open(self.base / "run.log", "ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "migrate", "run", "--dir", str(self.directory)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        process, files = self.process, MigrationDirectory(self.directory)
        # A command that finds the last phase fulfilled may have ended already.
        until(lambda: files.is_running() or process.poll() is not None, self.output, PHASE_S)

    def kill_and_start(self) -> None:
        """Kill the running command without warning, and start another one."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        """End the running command."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def output(self) -> str:
        log = self.base / "run.log"
        return log.read_text() if log.exists() else ""

    @property
    def moved(self) -> int:
        """Messages that have moved in the present direction."""
        status = MigrationDirectory(self.directory).status()
        return 0 if status is None else status.moved

    def phase(self) -> str:
        state = json.loads((self.directory / "state.json").read_text())
        return str(state["history"][-1]["phase"])

    def await_phase(self, phase: str) -> None:
        until(
            lambda: self.phase() == phase,
            lambda: f"{phase}, {self.command('status')}{self.output()}",
            PHASE_S,
        )
