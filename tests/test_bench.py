"""Parts of the benchmark that could report a wrong number: counting of messages, CPU time, verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.brokers import Floor, MirrorMQ
from benchmarks.cluster_lines import CLUSTER_LINES
from benchmarks.clusters import MirrorMQCluster, wait_until_served
from benchmarks.core_rounds import build_of
from benchmarks.cost_cluster_lines import CLUSTER_COST_LINES
from benchmarks.cost_lines import KEYS, many_clients, topic_queue, unlike_messages
from benchmarks.cost_routing_lines import topic_keys, topic_patterns
from benchmarks.costs import (
    MIRRORMQ,
    RABBITMQ,
    Cost,
    CostLine,
    CostResult,
    cost_rounds,
    declared,
    kept_costs,
    spend,
)
from benchmarks.kept_rounds import KeptRounds
from benchmarks.lines import Line
from benchmarks.machine import CHANGED, describe
from benchmarks.process_stats import cpu_s, resident_bytes
from benchmarks.raw_links import BrokerRefused, Consumer, Publisher, publish
from benchmarks.readme_figures import FIGURES
from benchmarks.run import ALL_COST_LINES, ALL_LINES
from benchmarks.takeovers import takeover_of
from mirrormq import builds
from mirrormq.client_io.blocking_client import connect
from mirrormq.wire.properties import BasicProperties

ROOT = Path(__file__).resolve().parents[1]


def no_measure(*_: object) -> Cost:
    raise AssertionError("not measured here")


def test_cpu_time_and_memory_are_those_of_the_session() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint('burnt', flush=True)\ninput()"
    with subprocess.Popen(
        ["sh", "-c", f'{sys.executable} -c "{burn}"; true'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as shell:
        assert shell.stdout is not None and shell.stdout.readline() == b"burnt\n"
        assert 0.4 < cpu_s([shell.pid]) < 5.0
        assert resident_bytes([shell.pid]) > 5_000_000
        assert cpu_s([shell.pid, os.getpid()]) > cpu_s([shell.pid])
        shell.communicate(b"\n")


def test_a_goal_needs_the_ratio_and_the_rate() -> None:
    line = CostLine("key", "work", 4, no_measure, at_most_us=20)
    theirs = [Cost(1000, 0.08, 1.0)]

    def verdict(cpu_seconds: float, wall_s: float) -> str:
        ours = [Cost(1000, cpu_seconds, wall_s)]
        return CostResult(line, {RABBITMQ: theirs, MIRRORMQ: ours}).cells()[-1]

    assert verdict(0.020, 1.0) == "yes"
    assert verdict(0.021, 1.0) == "no"
    assert verdict(0.020, 1.2) == "no"
    assert CostResult(line, {MIRRORMQ: [Cost(1000, 0.02, 1.0)]}).cells()[-1] == "yes"
    assert CostResult(line, {MIRRORMQ: [Cost(1000, 0.03, 1.0)]}).cells()[-1] == "no"


def test_an_absolute_bound_counts_beside_the_ratio() -> None:
    line = Line("key", "work", "ms", 1, lambda *_: 0.0, lower_is_better=True, at_most=50)
    assert line.met(0.9, 40) is True
    assert line.met(0.9, 60) is False
    assert line.met(1.1, 40) is False
    assert line.met(None, 40) is True


def test_a_line_that_fails_is_told_and_ends_its_rounds_only() -> None:
    broker = MirrorMQ()
    times: list[float] = []

    def measure(*_: object) -> Cost:
        times.append(1.0)
        if len(times) == 2:
            raise BrokerRefused("a | b")
        return Cost(1000, 0.01, 1.0)

    try:
        result = cost_rounds(CostLine("key", "work", None, measure, at_most_us=20), [broker], 3, 1.0)
    finally:
        broker.stop()
    assert len(times) == 2
    assert result.cells()[0] == "work (failed: MirrorMQ: a / b)" and result.cells()[-1] == "no"


def test_a_table_is_measured_in_parts_of_one_tree(tmp_path: Path) -> None:
    first = KeptRounds("table", "revision 1", tmp_path)
    first.put("a", {RABBITMQ: [Cost(10, 0.5, 1.0)], MIRRORMQ: [Cost(20, 0.5, 1.0, 2.5)]}, "", 0.5)
    assert first.missing(["a", "b"]) == ["b"]
    second = KeptRounds("table", "revision 1", tmp_path)
    second.put("b", {MIRRORMQ: []}, "MirrorMQ: no reply", 3.0)
    line = CostLine("a", "work", None, no_measure, at_most_us=7)
    found, failed = kept_costs([line, replace(line, key="b")], KeptRounds("table", "revision 1", tmp_path))
    assert found.rounds[MIRRORMQ] == [Cost(20, 0.5, 1.0, 2.5)] and not found.error
    assert failed.error == "MirrorMQ: no reply" and failed.cells()[-1] == "no"
    assert second.missing(["a", "b"]) == []
    assert second.facts() == [
        "rounds per line and broker: 0 to 1",
        "load average before each line: 0.50 to 3.00",
    ]
    assert KeptRounds("table", "revision 2", tmp_path).missing(["a", "b"]) == ["a", "b"]


def test_rounds_of_a_changed_tree_are_not_combined(tmp_path: Path) -> None:
    changed = f"revision 1{CHANGED}"
    KeptRounds("table", changed, tmp_path).put("a", {MIRRORMQ: [1.0]}, "", 0.5)
    assert KeptRounds("table", changed, tmp_path).missing(["a"]) == ["a"]


def test_about_three_patterns_match_a_key_of_the_topic_line() -> None:
    patterns = [pattern.split(".") for pattern in topic_patterns()]
    sample = topic_keys()[::97]
    matches = sum(
        all(word in ("*", part) for word, part in zip(pattern, key.split("."), strict=True))
        for key in sample
        for pattern in patterns
    )
    assert len(patterns) == 3000
    assert 2.5 < matches / len(sample) < 3.5


def test_links_count_each_message_once() -> None:
    broker = MirrorMQ()
    broker.start()
    try:
        with declared(broker, topic_queue):
            messages = unlike_messages(100)
            publisher = Publisher(broker.uri, messages, 1, window=30)
            publisher.limit = 1000
            cost = spend(broker, [publisher], [publisher], float("inf"), limit=1000)
            assert publisher.count == 1000 and cost.messages <= 850 and cost.cpu_s < cost.wall_s * 4
            client = connect(broker.uri)
            assert client.declare_queue("bench", durable=True, passive=True) == 1000
            client.close()
            consumer = Consumer(broker.uri, "bench", prefetch=20)
            spend(broker, [consumer], [consumer], float("inf"), limit=1000)
            assert consumer.count == 1000
        refused = Publisher(broker.uri, [publish("no such exchange", KEYS[0], BasicProperties(), b"")], 1, 1)
        with pytest.raises(BrokerRefused, match="no exchange 'no such exchange'"):
            spend(broker, [refused], [refused], 5.0)
    finally:
        broker.stop()


def test_the_floor_server_does_the_work_of_lone_messages() -> None:
    floor = Floor()
    floor.start()
    try:
        cost = many_clients(1, publishers=3, consumers=2)(floor, 0.3)
        assert cost.messages > 20
    finally:
        floor.stop()


def test_the_floor_of_large_bodies_is_that_of_five_system_calls() -> None:
    measured = "from benchmarks.large_floor import Work, measure; print(*measure(Work(65536, 4, 2, 2)))"
    command = [sys.executable, "-c", measured]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"read", "pwrite", "fdatasync", "write", "unlink"}


def test_the_mirrored_path_is_measured_in_process() -> None:
    command = [sys.executable, "-m", "benchmarks.core_path", "--scale", "0.01", "mu", "mt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    header, *lines = done.stdout.splitlines()
    assert header.startswith("message core: ")
    assert [line.split()[0] for line in lines] == ["mu", "mt"]


def test_figures_state_the_build_that_they_were_measured_with() -> None:
    described = [fact for fact in describe(None) if fact.startswith("MirrorMQ: ")]
    assert len(described) == 1 and described[0].endswith(f", message core {builds.choice.description}")
    assert build_of(ROOT).startswith(("compiled", "pure"))


def test_a_takeover_ends_when_every_queue_has_confirmed() -> None:
    cluster = MirrorMQCluster()
    cluster.start()
    try:
        found = takeover_of(cluster, 20, "")
        assert 0 < found["gap"] < 30_000
        assert 0 < found["bystander"] < 30_000
        # The queues are gone, and the killed node serves clients again.
        assert json.loads(cluster.control("list_queues", "name", "--formatter", "json")) == []
        wait_until_served(cluster.uri(0))
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("ARGS=", ["run", "cluster_run", "spark_run", "shovels"]),
        ("ARGS=--only publish", ["run"]),
        ("PARTS=cluster_run shovels", ["cluster_run", "shovels"]),
    ],
)
def test_parts_of_the_benchmark_run_though_one_fails(given: str, parts: list[str], tmp_path: Path) -> None:
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f'#!/bin/sh\ncase "$2" in benchmarks.*) echo "$2" >>{ran}; exit 1;; esac\n')
    program.chmod(0o755)
    command = ["make", "-o", f"{ROOT}/.venv/.installed", "bench", given, f"RUN={program}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.read_text().split() == [f"benchmarks.{part}" for part in (*parts, "readme_figures")]
    assert done.returncode and f"bench: failed: {' '.join(parts)} readme_figures" in done.stderr


def test_figures_of_the_readme_are_lines_of_the_benchmark() -> None:
    one_node, cluster = (*ALL_LINES, *ALL_COST_LINES), (*CLUSTER_LINES, *CLUSTER_COST_LINES)
    works = {"RESULTS.md": {line.work for line in one_node}, "CLUSTER.md": {line.work for line in cluster}}
    assert [figure for figure in FIGURES if figure.work not in works[figure.file]] == []


@pytest.mark.parametrize("verb", ["bench", "bench-core"])
def test_the_message_core_is_compiled_before_it_is_measured(verb: str) -> None:
    command = ["make", "-n", verb, "ARGS="]
    commands = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 0 < commands.find("compile_core.py") < commands.find("-m benchmarks.")
