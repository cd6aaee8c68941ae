"""A real RabbitMQ of its own: own ports, own data directory, own epmd, gone without a trace.

The Debian wrapper in /usr/sbin insists on the `rabbitmq` account and on /var/lib; the scripts it wraps do
not, so those are started directly, with every directory and file of the node pointed into one temporary
directory. The Erlang port mapper is shared by a whole machine by default and outlives the node that
started it; this one gets its own port and is told to go when the node has gone.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from benchmarks.brokers import rabbitmq_environment
from tests.brokers.ports import accepts, free_ports

PLUGINS = (
    "rabbitmq_management",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_sharding",
    "rabbitmq_event_exchange",
    "rabbitmq_auth_mechanism_ssl",
)
VERSION = "3.10.8"
START_DEADLINE_S = 300.0
"""A start takes 8 s alone on two cores, and 95 s were seen beside twenty runnable processes for each core."""
EPMD_DEADLINE_S = 10.0
CHANNEL_TICK_MS = 500
"""Interval at which a channel looks for consumers that never acknowledge; RabbitMQ's default is 60 s."""


def script_directory() -> Path | None:
    """Directory of the installed RabbitMQ's start scripts, if it is the reference version."""
    found = glob.glob(f"/usr/lib/rabbitmq/lib/rabbitmq_server-{VERSION}/sbin")
    return Path(found[0]) if found and shutil.which("erl") else None


class RabbitMQ:
    """One node; use as a context manager or call start() and stop()."""

    def __init__(
        self,
        *,
        configuration: str = "",
        amqp_port: int = 0,
        management_port: int = 0,
        more_plugins: tuple[str, ...] = (),
    ) -> None:
        ports = free_ports(4)
        self.amqp_port = amqp_port or ports[0]
        self.management_port = management_port or ports[1]
        self._distribution_port, self._epmd_port = ports[2], ports[3]
        self._configuration = configuration
        self._plugins = (*PLUGINS, *more_plugins)
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.node_name = f"rabbit{self.amqp_port}@localhost"

    @staticmethod
    def available() -> bool:
        """Whether RabbitMQ 3.10.8 is installed here."""
        return script_directory() is not None

    @property
    def directory(self) -> Path:
        assert self._directory is not None, "not started"
        return self._directory

    @property
    def process_id(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> Self:
        scripts = script_directory()
        assert scripts is not None, f"RabbitMQ {VERSION} is not installed"
        self._directory = Path(tempfile.mkdtemp(prefix="rabbitmq-"))
        self._write_configuration()
        with open(self._directory / "output", "wb") as output:
            self._process = subprocess.Popen(
                [str(scripts / "rabbitmq-server")],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_serving()
        return self

    def stop(self) -> None:
        """Stop the node and its epmd, then remove what they wrote."""
        if self._process is not None:
            # The whole session is ours and its data is thrown away: no need for RabbitMQ's slow farewell.
            self._kill_session()
            self._process.wait()
            self._process = None
            self._stop_epmd()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl; about three seconds a time, so the HTTP API is better where it can do it."""
        scripts = script_directory()
        assert scripts is not None
        done = subprocess.run(
            [str(scripts / "rabbitmqctl"), "-q", *arguments],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        ports = (self.amqp_port, self._distribution_port, self._epmd_port)
        erlang = {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"}
        return rabbitmq_environment(self.directory, self.node_name, *ports) | erlang

    def _write_configuration(self) -> None:
        base = self.directory
        lines = [
            f"management.tcp.port = {self.management_port}",
            "management.tcp.ip = 127.0.0.1",
            "management_agent.disable_metrics_collector = true",
            "log.file.level = warning",
            "log.console = false",
            self._configuration,
        ]
        (base / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (base / "advanced.config").write_text(
            f"[{{rabbit, [{{channel_tick_interval, {CHANNEL_TICK_MS}}}]}}].\n"
        )
        (base / "enabled_plugins").write_text(f"[{','.join(self._plugins)}].\n")

    def _wait_until_serving(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_DEADLINE_S
        while not (accepts(self.amqp_port) and accepts(self.management_port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                output = (self.directory / "output").read_text(errors="replace")[-3000:]
                self.stop()
                raise RuntimeError(f"RabbitMQ did not start:\n{output}")
            time.sleep(0.1)

    def _kill_session(self) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _stop_epmd(self) -> None:
        """Ours by its port. It refuses to go until it has noticed that its only node has gone."""
        environment = os.environ | {"ERL_EPMD_PORT": str(self._epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        deadline = time.monotonic() + EPMD_DEADLINE_S
        while accepts(self._epmd_port) and time.monotonic() < deadline:
            subprocess.run(
                ["epmd", "-kill"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            time.sleep(0.05)
