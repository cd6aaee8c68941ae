"""A local cluster whose start is interrupted leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirrormq.cli import processes
from mirrormq.cli.local_node import LocalNode, is_running
from mirrormq.cli.processes import ClusterError, LocalCluster
from mirrormq.cli.program_exit import ended_by_signals, signals_held
from tests.brokers.ports import free_ports

SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)", "mirror1@localhost"]


@pytest.fixture(autouse=True)
def handlers() -> Any:
    """Restore the signal handlers of the tests."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def a_cluster(directory: Path) -> LocalCluster:
    amqp, management, peers = free_ports(3)
    node = LocalNode("mirror1@localhost", amqp, management, peers)
    return LocalCluster(directory, [node], None, str(directory / "run"))


def test_a_signal_during_the_start_of_a_process_stops_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(*_words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(SLEEPING, start_new_session=True, stdin=options["stdin"]))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(processes, "subprocess", WithPopen(interrupted))
    cluster = a_cluster(tmp_path)
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        cluster.start_all()
    assert [child.poll() is not None for child in started] == [True]
    assert LocalCluster.load(tmp_path).nodes[0].pid == started[0].pid, "`cluster down` knows it"
    assert not is_running(cluster.nodes[0])


class WithPopen:
    """Module subprocess with another Popen."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, popen: Any) -> None:
        self.Popen = popen


def test_a_held_signal_comes_at_the_end_and_an_ignored_one_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    arrived: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: arrived.append(number))
    with signals_held():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert not arrived
    assert arrived == [signal.SIGTERM]


def test_the_reason_of_a_failed_start_is_found_among_lines_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "print('mirrormq: The directory is in use by process 7.'); print('[info] another node goes on')"
    monkeypatch.setattr(LocalCluster, "_command", lambda _, node: [sys.executable, "-c", script, node.name])
    with pytest.raises(ClusterError, match=r"did not start: The directory is in use by process 7\. \(log: "):
        a_cluster(tmp_path).start_all()
