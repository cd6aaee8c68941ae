"""Command `mirrormq chaos`: one-sentence errors, and no processes left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mirrormq.cli.local_node import is_running
from mirrormq.cli.processes import LocalCluster
from tests.waiting import until

PROGRAM = Path(sys.executable).with_name("mirrormq")


@pytest.fixture
def near() -> Iterator[Path]:
    """Directory with a short path: the paths of control sockets are limited."""
    with TemporaryDirectory(prefix="chaos-") as directory:
        yield Path(directory)


def begin(history: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(PROGRAM), "chaos", "--history", str(history), "--nodes", "1", "--fault", "kill", *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(history.parent)},
    )  # fmt: skip


def complaint(history: Path, *options: str) -> str:
    """Return the only line that a run without a verdict prints."""
    run = begin(history, "--duration", "1", *options)
    said, complained = run.communicate(timeout=60)
    assert run.returncode == 2 and not said
    (line,) = complained.splitlines()
    return line


def clusters_in(directory: Path) -> list[Path]:
    return list(directory.glob("mirrormq-*/cluster.json"))


def test_a_configuration_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    conf = tmp_path / "absent.conf"
    assert f"{conf} cannot be read: No such file" in complaint(tmp_path / "h", "--conf", str(conf))
    assert f"{tmp_path} cannot be read: Is a directory" in complaint(tmp_path / "h", "--conf", str(tmp_path))
    conf.write_bytes(b"\xff\xfe")
    assert f"{conf} is not a text file" in complaint(tmp_path / "h", "--conf", str(conf))


def test_a_place_where_no_history_can_be_is_named_before_nodes_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert f"{file} cannot be written: File exists" in complaint(file)
    assert "cannot be written: Not a directory" in complaint(file / "below")


def test_nodes_that_cannot_start_say_why(near: Path) -> None:
    conf = near / "bad.conf"
    conf.write_text("hartbeat = 1\n")
    assert "did not start" in (said := complaint(near / "h", "--conf", str(conf))), said
    assert "unknown key hartbeat" in said
    assert not clusters_in(near)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_leaves_no_nodes(near: Path, number: signal.Signals) -> None:
    run = begin(near / "h", "--rate", "20")
    try:
        (found,) = until(lambda: clusters_in(near))
        cluster = LocalCluster.load(found.parent)
        (node,) = cluster.nodes
        until(lambda: "serves clients" in cluster.log_of(node).read_text())
        run.send_signal(number)
        _, complained = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 130
    assert complained.splitlines()[-1].startswith("mirrormq chaos: interrupted; there is no verdict")
    assert not is_running(node) and not found.parent.exists()
