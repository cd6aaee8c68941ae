"""Installation: `make up` installs little, `make test` adds the rest, and a wheel is enough to run a node."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import venv
from pathlib import Path

import pika
import pytest

from tests.brokers.ports import accepts, free_ports
from tests.deploy.nodes import DEADLINE_S, ROOT
from tests.waiting import until

REQUIREMENTS = ROOT / "requirements"
RUNTIME_BYTES_MAX = 100_000_000
PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)
INSTALL_S = 170
CLEAN = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


def make(*words: str) -> str:
    command = ["make", "--no-print-directory", "-C", str(ROOT), *words]
    done = subprocess.run(command, env=CLEAN, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((REQUIREMENTS / f"{name}.txt").read_text()))


@pytest.mark.parametrize("name", ["runtime", "checkout"])
def test_the_first_step_installs_no_version_that_the_second_replaces(name: str) -> None:
    found = pins(name)
    assert found
    assert found.items() <= pins("test").items()


def test_up_installs_the_runtime_only(tmp_path: Path) -> None:
    planned = make("-n", f"VENV={tmp_path}/venv", "up")
    assert "requirements/runtime.txt" in planned and "requirements/test.txt" not in planned
    assert "requirements/test.txt" in make("-n", f"VENV={tmp_path}/venv", "test")


@pytest.mark.slow
def test_packages_that_up_installs_are_small_and_installed_once(tmp_path: Path) -> None:
    where = tmp_path / "venv"
    make(f"VENV={where}", f"{where}/.runtime")
    size = sum(path.lstat().st_size for path in where.rglob("*") if path.is_file())
    assert size < RUNTIME_BYTES_MAX
    for module in ("mirrormq", "pika"):  # pika is for the first lines of README.md
        subprocess.run([where / "bin" / "python", "-c", f"import {module}"], env=CLEAN, check=True)
    assert "up to date" in make(f"VENV={where}", f"{where}/.runtime")


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty environment in which pip has installed the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    make(f"DIST={folder}/dist", "wheel")
    (wheel,) = (folder / "dist").glob("mirrormq-*.whl")
    where = folder / "venv"
    venv.create(where, with_pip=True)
    install = [str(where / "bin" / "pip"), "install", "-q", str(wheel)]
    subprocess.run(install, env=CLEAN, cwd=folder, check=True, timeout=INSTALL_S)
    return where


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["archive --queues q --to a", "replay --from a", "stats --to s", "package", "audit --live"]
)
def test_a_job_without_its_packages_names_the_extra(where: Path, words: str, tmp_path: Path) -> None:
    command = [str(where / "bin" / "mirrormq"), "pipeline", *words.split()]
    done = subprocess.run(command, env=CLEAN, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.endswith("is not installed: run pip install 'mirrormq[spark]'\n")


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_a_node(where: Path, tmp_path: Path) -> None:
    (typed,) = where.glob("lib/*/site-packages/mirrormq/py.typed")
    assert typed.is_file()
    version = [str(where / "bin" / "python"), "-m", "mirrormq", "--version"]
    assert subprocess.check_output(version, env=CLEAN, cwd=tmp_path).startswith(b"mirrormq ")
    amqp, management = free_ports(2)
    command = [str(where / "bin" / "mirrormq"), "server", "--name", "wheel@localhost"]
    command += ["--data", str(tmp_path / "data")]
    command += ["--amqp", f"127.0.0.1:{amqp}", "--management", f"127.0.0.1:{management}"]
    command += ["--cluster", "none", "--cookie-file", str(tmp_path / "cookie")]
    environment = CLEAN | {"MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run")}
    node = subprocess.Popen(command, env=environment, cwd=tmp_path)
    try:
        until(lambda: accepts(amqp) or node.poll() is not None, "the node serves clients")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp))
        connection.channel().queue_declare("orders")
        connection.close()
        node.send_signal(signal.SIGTERM)
        assert node.wait(DEADLINE_S) == 0
    finally:
        if node.poll() is None:
            node.kill()
            node.wait()
