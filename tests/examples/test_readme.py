"""Run every command and program of README.md and README.zh.md.

Only addresses and directories are replaced: tests run beside other tests on the same machine.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import readme_figures
from benchmarks.readme_figures import FIGURES, LANGUAGES, ROW, SHORTER, Figure, measured, refreshed
from mirrormq.testing import Cluster
from mirrormq.testing.port_allocator import free_ports
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
TIMEOUT_S = 120


def blocks(name: str) -> tuple[list[str], list[str]]:
    """Shell commands and Python programs of one README, in order."""
    text = re.sub(r"\\\n\s*", "", (ROOT / name).read_text())
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^ {4}(\S.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return [line.partition("  #")[0].strip() for line in lines], programs


@pytest.fixture(scope="module")
def commands() -> list[str]:
    return blocks("README.md")[0]


def test_both_languages_have_the_same_commands_and_programs() -> None:
    assert blocks("README.md") == blocks("README.zh.md")


@pytest.mark.parametrize("name", LANGUAGES)
def test_figures_are_those_of_the_benchmark_files(name: str) -> None:
    """Run `python -m benchmarks.readme_figures` after a benchmark; `make bench` does."""
    text = (ROOT / name).read_text()
    assert refreshed(name, text) == text


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_figure_that_differs_from_its_file_is_replaced(name: str) -> None:
    text = (ROOT / name).read_text()
    rows = [found[0] for line in text.splitlines() if (found := ROW.match(line))]
    assert len(rows) == len(FIGURES)
    for row in rows:
        work, _, figures = row.partition(" | ")
        assert refreshed(name, text.replace(row, f"{work} | {re.sub('[0-9]', '7', figures)}")) == text
    dated = re.compile(r"\d{4}-\d\d-\d\d")
    assert refreshed(name, dated.sub("2001-01-01", text)) == text


def test_a_line_that_rabbitmq_wins_is_not_shown_as_a_victory(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = Figure("RESULTS.md", "RPC beside a flow of 1 MiB bodies, p99", SHORTER)
    row = {"work": slower.work, "RabbitMQ": "13.43 ms (1–2)", "MirrorMQ": "17.96 ms (1–2)", "ratio": "1.34 ×"}
    monkeypatch.setattr(readme_figures, "table_row", lambda text, work: row)
    with pytest.raises(ValueError, match="needs other words"):
        measured(slower)


def test_the_set_up_commands_are_targets_of_the_makefile(commands: list[str]) -> None:
    targets = [command.split()[1] for command in commands if command.startswith("make ")]
    assert targets == ["up", "test"]
    for target in targets:
        dry = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert dry.returncode == 0, dry.stderr


def run(command: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        command = command.replace(old, new)
    words = shlex.split(command.replace(".venv/bin/", f"{PROGRAMS}/"))
    if words[0] == "mirrormq":
        words[0] = str(PROGRAMS / "mirrormq")
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=dict(os.environ)
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, mirror_all=True) as started:
        yield started


@pytest.mark.slow
def test_the_first_session(cluster: Cluster, commands: list[str]) -> None:
    replaced = {
        "127.0.0.1:5672": f"127.0.0.1:{cluster.port(0)}",
        "127.0.0.1:15672": f"127.0.0.1:{cluster.management_port(0)}",
        "--data var": f"--data {cluster.directory}",
    }
    program = blocks("README.md")[1][0].replace("127.0.0.1:5672", replaced["127.0.0.1:5672"])
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIMEOUT_S)
    session = [command for command in commands if command.startswith((".venv/bin/", "curl"))]
    first, kill, on_successor, start, set_policy, by_policy, clear, curl = session
    assert re.search(r"^orders\t5\t<mirror1@localhost", run(first, replaced), re.MULTILINE)
    run(kill, replaced)
    until(lambda: "orders\t5\t<mirror2@localhost" in run(on_successor, replaced))
    run(start, replaced)
    run(set_policy, replaced)
    until(lambda: "orders\t2\tshort" in run(by_policy, replaced))
    run(clear, replaced)
    assert json.loads(run(curl, replaced))["messages"] == 2


@pytest.mark.slow
def test_nodes_started_one_by_one(
    tmp_path: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("MIRRORMQ_COOKIE", "readme")
    first_port = free_ports(6)
    servers = [command for command in commands if command.startswith("mirrormq server")]
    replaced = {"var/": f"{tmp_path}/", ":25672": f":{first_port}", ":5673": f":{first_port + 1}"}
    replaced |= {":15673": f":{first_port + 2}", ":25673": f":{first_port + 3}"}
    first = (
        f" --amqp localhost:{first_port + 4} --management localhost:{first_port + 5}"
        f" --cluster localhost:{first_port}"
    )
    processes = []
    try:
        for number, command in enumerate(servers):
            for old, new in replaced.items():
                command = command.replace(old, new)
            words = shlex.split(command + first * (number == 0))[1:]
            processes.append(subprocess.Popen([str(PROGRAMS / "mirrormq"), *words]))
        asked = f"{PROGRAMS}/mirrormqctl -n mirror2@localhost -q await_online_nodes 2"
        until(
            lambda: subprocess.run(shlex.split(asked), check=False, capture_output=True).returncode == 0,
            "both nodes run",
            TIMEOUT_S,
        )
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=TIMEOUT_S)


@pytest.mark.slow
def test_a_local_cluster(tmp_path: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path / "run"))
    first_port = free_ports(9)
    replaced = {"--data var": f"--data {tmp_path}"}
    local = [command for command in commands if re.match(r"mirrormq (cluster|haproxy)", command)]
    up, status, freeze, resume, haproxy, down = local
    run(
        f"{up} --amqp-port {first_port} --management-port {first_port + 3} --cluster-port {first_port + 6}",
        replaced,
    )
    try:
        assert [node["running"] for node in json.loads(run(status, replaced))] == [True] * 3
        run(freeze, replaced)
        run(resume, replaced)
        assert f"127.0.0.1:{first_port + 2}" in run(haproxy, replaced)
    finally:
        run(down, replaced)


@pytest.mark.slow
def test_the_context_manager() -> None:
    program = blocks("README.md")[1][1]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    assert len(re.findall(r"^amqp://", done.stdout, re.MULTILINE)) == 2
