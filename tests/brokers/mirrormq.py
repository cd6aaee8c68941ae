"""One MirrorMQ node in a process of its own, on free loopback ports, in a temporary directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from mirrormq.control.control_client import call
from mirrormq.control.control_protocol import ControlError, Request
from tests.brokers.ports import free_ports

START_DEADLINE_S = 60.0
"""A start takes under a second; a machine that is busy with other things may take many times that."""
STOP_DEADLINE_S = 20.0
PROGRAMS = Path(sys.executable).parent


class MirrorMQ:
    """One node; use as a context manager or call start() and stop()."""

    def __init__(self, *, configuration: str = "", amqp_port: int = 0, management_port: int = 0) -> None:
        ports = free_ports(3)
        self.amqp_port = amqp_port or ports[0]
        self.management_port = management_port or ports[1]
        self._cluster_port = ports[2]
        self._configuration = configuration
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.node_name = "mirror1@localhost"

    @staticmethod
    def available() -> bool:
        """Whether the console scripts are installed beside this Python."""
        return (PROGRAMS / "mirrormq").exists()

    @property
    def directory(self) -> Path:
        assert self._directory is not None, "not started"
        return self._directory

    @property
    def process_id(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def output(self) -> str:
        """Text that the node has written to standard output and error."""
        return (self.directory / "output").read_text(errors="replace")

    def start(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="mirrormq-"))
        (self._directory / "mirrormq.conf").write_text(self._configuration)
        self.boot()
        return self

    def boot(self) -> None:
        """Start the process on the data that is there; also after kill()."""
        base = self.directory
        with open(base / "output", "ab") as output:
            self._process = subprocess.Popen(
                [
                    *(str(PROGRAMS / "mirrormq"), "server"),
                    *("--name", self.node_name),
                    *("--data", str(base / "data")),
                    *("--amqp", f"127.0.0.1:{self.amqp_port}"),
                    *("--management", f"127.0.0.1:{self.management_port}"),
                    *("--cluster", f"127.0.0.1:{self._cluster_port}"),
                    *("--conf", str(base / "mirrormq.conf")),
                ],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._wait_until_serving()

    def kill(self) -> None:
        """End the process at once, as a power cut would; the data stays."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def control(self, *arguments: str) -> str:
        """Run mirrormqctl against this node."""
        done = subprocess.run(
            [str(PROGRAMS / "mirrormqctl"), "-q", "-n", self.node_name, *arguments],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"mirrormqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "MIRRORMQ_RUNTIME_DIR": str(self.directory / "run"),
            "MIRRORMQ_COOKIE": "differential",
        }

    def _serves(self) -> bool:
        """Whether its ports are open and it knows that they are."""
        with contextlib.suppress(ControlError):
            reported = call(self.directory / "run", self.node_name, Request("ping"), START_DEADLINE_S)
            return bool(reported["serving"] and reported["pid"] == self.process_id)
        return False

    def _wait_until_serving(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self.output[-3000:]
                self.stop()
                raise RuntimeError(f"MirrorMQ did not start:\n{said}")
            time.sleep(0.02)
