"""Nodes as processes on loopback, started one by one, each in its own way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pika

from mirrormq.control.control_client import call
from mirrormq.control.control_protocol import ControlError, Request
from tests.brokers.ports import free_ports
from tests.waiting import until

DEADLINE_S = 40.0
"""Far more than anything here takes, for a machine that is busy with other things."""

Outcome = tuple[int, str, str]


class Nodes:
    """A few nodes that share a directory, a secret and a place for control sockets."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.directory = directory
        self.names = [f"mirror{number + 1}@localhost" for number in range(count)]
        ports = free_ports(2 * count)
        self.amqp_ports, self.cluster_ports = ports[:count], ports[count:]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.programs: dict[int, list[str]] = {}
        """Arguments of the interpreter that start a node, if it is not to run this program."""
        # The path of a Unix socket is short; pytest's directories may not be.
        self.run = tempfile.mkdtemp(prefix="mirrormq-")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "MIRRORMQ_RUNTIME_DIR": self.run, "MIRRORMQ_COOKIE": "of these tests"}

    def seed(self, index: int) -> str:
        """Address that a joining node is given."""
        return f"{self.names[index]}:{self.cluster_ports[index]}"

    def data(self, index: int) -> Path:
        return self.directory / self.names[index]

    def spawn(self, index: int, *flags: str, conf: str = "", **variables: str) -> None:
        """Start a node's process."""
        self.data(index).mkdir(parents=True, exist_ok=True)
        file = self.directory / f"{index}.conf"
        file.write_text(conf)
        with self.log_file(index).open("ab") as output:
            self.processes[index] = subprocess.Popen(
                [
                    *(sys.executable, *self.programs.get(index, ["-m", "mirrormq.cli.main"])),
                    *("server", "--name", self.names[index]),
                    *("--data", str(self.data(index)), "--management", "none"),
                    *("--amqp", f"127.0.0.1:{self.amqp_ports[index]}"),
                    *("--cluster", f"127.0.0.1:{self.cluster_ports[index]}"),
                    *("--conf", str(file), *flags),
                ],
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def log_file(self, index: int) -> Path:
        return self.directory / f"{index}.log"

    def log(self, index: int) -> str:
        return self.log_file(index).read_text()

    def start(self, index: int, *flags: str, conf: str = "") -> None:
        """Start a node and wait until it serves clients."""
        self.spawn(index, *flags, conf=conf)
        self.await_serving(index)

    def await_serving(self, index: int) -> None:
        until(lambda: self._serves(index), lambda: f"{self.names[index]} serves:\n{self.log(index)[-3000:]}")

    def _serves(self, index: int) -> bool:
        process = self.processes[index]
        assert process.poll() is None, f"{self.names[index]} ended:\n{self.log(index)[-3000:]}"
        with contextlib.suppress(ControlError):
            reported = call(Path(self.run), self.names[index], Request("ping"), 10.0)
            return bool(reported["serving"] and reported["pid"] == process.pid)
        return False

    def await_running(self, index: int, *expected: int) -> None:
        """Wait until a node sees exactly these run."""
        names = [self.names[number] for number in expected]
        until(
            lambda: self._running(index) == names,
            lambda: f"{names} run, not {self._running(index)}:\n{self.log(index)[-3000:]}",
        )

    def _running(self, index: int) -> object:
        try:
            return self.ask(index, "running_nodes")
        except ControlError as error:
            return error.text

    def ask(self, index: int, command: str, *words: str) -> object:
        """A command's result."""
        return call(Path(self.run), self.names[index], Request(command, list(words)), DEADLINE_S)

    def form(self) -> Nodes:
        """All nodes, in one cluster."""
        for index in range(len(self.names)):
            self.spawn(index, *(() if index == 0 else ("--join", self.seed(0))))
        for index in range(len(self.names)):
            self.await_serving(index)
            self.await_running(index, *range(len(self.names)))
        return self

    def kill(self, index: int) -> None:
        process = self.processes.pop(index)
        process.kill()
        process.wait()

    def stop(self, index: int) -> int:
        """SIGTERM; says the exit code."""
        process = self.processes.pop(index)
        process.send_signal(signal.SIGTERM)
        return process.wait(DEADLINE_S)

    def end(self) -> None:
        for index in list(self.processes):
            self.kill(index)

    def control(self, index: int, words: list[str], **variables: str) -> Outcome:
        """mirrormqctl as a process."""
        command = [sys.executable, "-c", "from mirrormq.cli.ctl import main; main()", *words]
        environment = self.environment | {"MIRRORMQ_NODE": self.names[index]} | variables
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    def amqp_port(self, index: int) -> int:
        return self.amqp_ports[index]

    @contextlib.contextmanager
    def channel(self, index: int) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.amqp_port(index)))
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()
