"""Brokers under measurement, each started alone in its own directory.

RabbitMQ runs with its defaults: no plugins, no configuration except ports and directories, its own Erlang
port mapper. MirrorMQ runs as `mirrormq server` with its defaults. The benchmark stops only processes that it
started.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Protocol

from mirrormq.client_io.blocking_client import connect
from mirrormq.client_io.client_socket import ClientError

START_DEADLINE_S = 120.0
STOP_DEADLINE_S = 30.0
POLL_S = 0.01
RABBITMQ_SCRIPTS = Path("/usr/lib/rabbitmq/bin")


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def longest_turn_ms(management_port: int) -> float | None:
    """Read the longest turn of a MirrorMQ node in the last five seconds from its metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{management_port}/metrics") as reply:
        found = re.search(rb'mirrormq_turn_longest_seconds\{window_seconds="5"\} (\S+)', reply.read())
    return float(found[1]) * 1000 if found else None


class Broker(Protocol):
    """Broker that can be started, measured and stopped."""

    name: str
    uri: str
    start_s: float

    @property
    def uris(self) -> list[str]:
        """URIs of its nodes."""

    @property
    def pids(self) -> list[int]:
        """Process ids of its nodes."""

    def longest_turn_ms(self) -> float | None:
        """Return the longest turn of its event loops in the last five seconds; None if it tells none."""

    def start(self) -> None:
        """Start the broker, wait until it serves a client, and record the time."""

    def stop(self) -> None:
        """Stop the broker and remove its files."""


class _Process:
    """Broker process, its directory, and the time until it served its first client."""

    name = ""

    def __init__(self) -> None:
        self.port = free_port()
        self.uri = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self.start_s = 0.0
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name.lower()}-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def uris(self) -> list[str]:
        return [self.uri]

    def longest_turn_ms(self) -> float | None:
        return None

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        """Start the broker; it serves when a client has a channel."""
        begin = time.monotonic()
        with open(self.directory / "output", "wb") as output:
            self._process = subprocess.Popen(
                self._command(),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while True:
            try:
                connect(self.uri, STOP_DEADLINE_S).close()
                break
            except ClientError as error:
                if self._process.poll() is not None or time.monotonic() - begin > START_DEADLINE_S:
                    tail = (self.directory / "output").read_text(errors="replace")[-2000:]
                    self.stop()
                    raise RuntimeError(f"{self.name} did not start ({error}):\n{tail}") from None
                time.sleep(POLL_S)
        self.start_s = time.monotonic() - begin

    def stop(self) -> None:
        """Send SIGTERM to the session, SIGKILL after the deadline, then clean up."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def rabbitmq_environment(
    base: Path, name: str, port: int, distribution_port: int, epmd_port: int
) -> dict[str, str]:
    """Return the variables that set every file and port of a RabbitMQ node."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(base),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": name,
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
        "RABBITMQ_LOG_BASE": str(base / "log"),
        "RABBITMQ_PID_FILE": str(base / "pid"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(base / "generated"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "enabled_plugins"),
        "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(base / "advanced.config"),
        "RABBITMQ_CONF_ENV_FILE": str(base / "no-environment-file"),
    }


class RabbitMQ(_Process):
    """Debian's rabbitmq-server, without the wrapper that requires its own account."""

    name = "RabbitMQ"

    def __init__(self) -> None:
        super().__init__()
        self._distribution_port, self._epmd_port = free_port(), free_port()
        (self.directory / "enabled_plugins").write_text("[].\n")

    @staticmethod
    def version() -> str | None:
        """Return the installed version, None when RabbitMQ or Erlang is missing."""
        found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        usable = (RABBITMQ_SCRIPTS / "rabbitmq-server").exists() and shutil.which("erl")
        return found[-1].name.partition("-")[2] if found and usable else None

    def _command(self) -> list[str]:
        return [str(RABBITMQ_SCRIPTS / "rabbitmq-server")]

    def _environment(self) -> dict[str, str]:
        name = f"bench{self.port}@localhost"
        return rabbitmq_environment(self.directory, name, self.port, self._distribution_port, self._epmd_port)

    def stop(self) -> None:
        """Stop the node, then the port mapper that it started, identified by our port."""
        running = self._process is not None
        super().stop()
        if running:
            environment = os.environ | {"ERL_EPMD_PORT": str(self._epmd_port)}
            subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False)


class MirrorMQ(_Process):
    """MirrorMQ node."""

    name = "MirrorMQ"

    def __init__(self) -> None:
        super().__init__()
        self._management_port = free_port()

    def longest_turn_ms(self) -> float | None:
        return longest_turn_ms(self._management_port)

    def _command(self) -> list[str]:
        program = Path(sys.executable).with_name("mirrormq")
        return [
            str(program),
            "server",
            "--name",
            f"bench{self.port}@localhost",
            "--data",
            str(self.directory / "data"),
            "--amqp",
            f"127.0.0.1:{self.port}",
            "--management",
            f"127.0.0.1:{self._management_port}",
            "--cluster",
            f"127.0.0.1:{free_port()}",
        ]

    def _environment(self) -> dict[str, str]:
        runtime = self.directory / "runtime"
        runtime.mkdir(exist_ok=True)
        variables = os.environ | {"MIRRORMQ_RUNTIME_DIR": str(runtime), "MIRRORMQ_COOKIE": "bench"}
        # pip compiles what it installs. A checkout gets its bytecode at its first start, unless forbidden.
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        return variables


class LavinMQ(_Process):
    """LavinMQ node, measured where its program is on the PATH."""

    name = "LavinMQ"

    @staticmethod
    def found() -> bool:
        """Whether the program is installed."""
        return shutil.which("lavinmq") is not None

    def _command(self) -> list[str]:
        return [
            "lavinmq",
            f"--data-dir={self.directory / 'data'}",
            "--bind=127.0.0.1",
            f"--amqp-port={self.port}",
            f"--http-port={free_port()}",
        ]


class Floor(_Process):
    """Server of canned frames (`benchmarks/floor_server.py`): the floor for lone messages, no broker."""

    name = "floor"

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.floor_server", str(self.port), str(self.directory)]
