"""Nodes as the image starts them: by its entrypoint, with the settings of a manifest, on loopback ports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
ENTRYPOINT = ROOT / "deploy" / "docker" / "entrypoint"
DEADLINE_S = 60.0
MEMBER = re.compile(r"mirrormq@[\w.-]*?(\d)([\w.-]*)")


class Container:
    """Substitute for a container: an environment, a volume, and a process."""

    def __init__(self, name: str, environment: dict[str, str], volume: Path) -> None:
        programs = Path(sys.executable).parent
        kept = {key: os.environ[key] for key in ("HOME", "LANG", "PYTHONPATH") if key in os.environ}
        self.name = name
        self.environment = {
            **kept, **environment, "MIRRORMQ_NAME": name, "MIRRORMQ_DATA_DIRECTORY": str(volume),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }  # fmt: skip
        self._output = volume.with_suffix(".output")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [str(ENTRYPOINT), "server"], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
            )  # fmt: skip

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command inside, as probes and hooks are run."""
        return subprocess.run(
            [str(ENTRYPOINT), *command], env=self.environment, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=90,
        )  # fmt: skip

    def await_healthy(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.run("healthy").returncode:
            assert time.monotonic() < deadline, self._output.read_text()[-3000:]
            time.sleep(0.2)

    def stop(self) -> int:
        """SIGTERM, as both platforms do it; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(DEADLINE_S)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def containers(
    settings: str, definitions: str, variables: dict[str, str], directory: Path
) -> Iterator[list[Container]]:
    """Three nodes with the settings of a manifest; only where they listen and what they are called differs,
    because there is one machine here and no name service."""
    ports = free_ports(9)
    names = [f"node{index}@localhost" for index in range(3)]
    (directory / "definitions.json").write_text(definitions)
    settings = settings.replace("/etc/mirrormq", str(directory))
    members = iter(range(3))
    settings = MEMBER.sub(lambda _: f"{names[(n := next(members))]}:{ports[6 + n]}", settings)
    (directory / "mirrormq.conf").write_text(settings)
    found = []
    for index, name in enumerate(names):
        environment = {
            **variables,
            "MIRRORMQ_CONF": str(directory / "mirrormq.conf"), "MIRRORMQ_COOKIE": "a long secret for tests",
            "MIRRORMQ_RUNTIME_DIR": str(directory / f"run{index}"),
            "MIRRORMQ_LISTENERS__TCP__DEFAULT": f"127.0.0.1:{ports[index]}",
            "MIRRORMQ_MANAGEMENT__ADDRESS": f"127.0.0.1:{ports[3 + index]}",
            "MIRRORMQ_CLUSTER__LISTENER": f"127.0.0.1:{ports[6 + index]}",
        }  # fmt: skip
        found.append(Container(name, environment, directory / f"volume{index}"))
    try:
        for container in found:
            container.start()
        yield found
    finally:
        for container in found:
            container.end()
