"""A real node for tests that are hard on it: killed, damaged, out of space, with a disk that fails."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from mirrormq.client_io.blocking_client import BlockingClient, connect
from tests.brokers.mirrormq import PROGRAMS, MirrorMQ
from tests.brokers.ports import free_ports

DEADLINE_S = 60.0
"""Far more than anything here takes, for a machine and a disk that are busy with other things."""


class Node(MirrorMQ):
    """A MirrorMQ process that a test may end in every way."""

    def __init__(
        self, configuration: str = "", variables: dict[str, str] | None = None, data: Path | None = None
    ) -> None:
        super().__init__(configuration=configuration)
        self.variables = variables or {}
        self._data = data
        """Data directory, if not the node's own."""

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def boot(self) -> None:
        if self._data is not None and not self.data.is_symlink():
            self._data.mkdir()
            self.data.symlink_to(self._data)
        super().boot()

    def dial(self) -> BlockingClient:
        """A connection with a channel."""
        return connect(f"amqp://127.0.0.1:{self.amqp_port}", DEADLINE_S)

    def environment(self) -> dict[str, str]:
        return super().environment() | self.variables

    def end(self) -> None:
        """A graceful stop that leaves the data."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(DEADLINE_S) == 0, self.output

    def exit_code(self) -> int:
        """Wait for the process to end by itself."""
        assert self._process is not None
        try:
            return self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the node still runs:\n{self.output[-3000:]}") from None

    def another(self) -> tuple[int, str]:
        """Start a node on the same data that is expected not to run: its exit code and what it said."""
        amqp, management, cluster = free_ports(3)
        done = subprocess.run(
            [
                *(str(PROGRAMS / "mirrormq"), "server"),
                *("--name", "mirror2@localhost"),
                *("--data", str(self.data)),
                *("--amqp", f"127.0.0.1:{amqp}"),
                *("--management", f"127.0.0.1:{management}"),
                *("--cluster", f"127.0.0.1:{cluster}"),
            ],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return done.returncode, done.stdout

    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process_id}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def segments(self) -> list[Path]:
        """The journal's files, oldest first."""
        return sorted((self.data / "journal").glob("*.journal"))
