"""A real Spark cluster from the pip package: master and workers are processes, executors their children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from mirrormq.spark.java import find_java, quiet_java_home
from tests.brokers.ports import accepts, free_port
from tests.waiting import until

START_TIMEOUT_S = 90.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = b"CoarseGrainedExecutorBackend"
PACKAGE = [sys.executable, "-m", "mirrormq.cli.main", "pipeline", "package"]


def bare_python(directory: Path) -> Path:
    """Return a `python3` that has the standard library only."""
    program = directory / "python3"
    program.write_text(f'#!/bin/sh\nunset PYTHONSAFEPATH\nexec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return program


def submit(master: str, archive: Path, settings: dict[str, str], *job: str) -> list[str]:
    """Return the command of the manual for workers without the packages, and write the archive."""
    subprocess.run([*PACKAGE, "--to", str(archive)], check=True, timeout=120, capture_output=True)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master]
    command += ["--archives", f"{archive}#mirrormq-spark"]
    for key, value in {**settings, "spark.executorEnv.PYTHONPATH": "./mirrormq-spark"}.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, *job]


def submit_environment() -> dict[str, str]:
    """Return the environment of `spark-submit`, in which `python3` is this Python."""
    return {
        **{key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(quiet_java_home(find_java())),
    }  # fmt: skip


class SparkCluster:
    """Use as a context manager; `master` is its address."""

    def __init__(self, directory: Path, workers: int = 2, path: str | None = None) -> None:
        """Without `path`, a PATH, the workers' Python is this one."""
        self._directory = directory
        self._path = path
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start(MASTER, "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
            self._wait_for_master()
            self.workers = [self.start_worker() for _ in range(self._count)]
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start_worker(self) -> subprocess.Popen[bytes]:
        """One more, with one core."""
        place = self._directory / f"worker-{len(self._processes)}"
        limits = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(place)]
        return self._start(WORKER, "--host", "127.0.0.1", *limits, self.master)

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        parents = {str(worker.pid) for worker in self.workers}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                    if parent in parents and EXECUTOR in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def kill_executor(self) -> None:
        """SIGKILL to one of them."""
        running = until(self.executors, "no executor to kill", patience_s=START_TIMEOUT_S)
        os.kill(running[0], signal.SIGKILL)

    def kill_worker(self) -> None:
        """SIGKILL to a worker and all it started: the loss of a machine. Another one takes its place."""
        worker = self.workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self.workers.append(self.start_worker())

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "JAVA_HOME": str(quiet_java_home(find_java())),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -Dspark.worker.timeout=20",
            **({"PYSPARK_PYTHON": sys.executable} if self._path is None else {"PATH": self._path}),
        }  # fmt: skip
        with self._log(len(self._processes)).open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), kind, *arguments],
                env=environment, cwd=self._directory, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _log(self, number: int) -> Path:
        return self._directory / f"process-{number}.log"

    def _wait_for_master(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not accepts(self._port):
            assert self._processes[0].poll() is None, self._log(0).read_text()[-2000:]
            assert time.monotonic() < deadline, "the Spark master does not start"
            time.sleep(0.1)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
