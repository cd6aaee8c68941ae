"""The audit finds what was planted, names it, and answers with the right exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from mirrormq.cli.program import app
from mirrormq.history import HistoryWriter
from mirrormq.spark.audit import message_outcomes, order
from mirrormq.spark.audit.findings import Findings
from mirrormq.spark.audit.history_events import read_events
from mirrormq.spark.jobs.audit import audit
from tests.spark.planted import FAULTS, KILL_FROM_NS, MESSAGES, NODES, QUEUE, START_NS, Planted, at


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command in this process, with the tests' Spark, which it must not stop."""
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    return CliRunner()


def run(command: CliRunner, *arguments: str) -> Result:
    return command.invoke(app, ["pipeline", "audit", "--master", "local[1]", *arguments])


def judged(spark: SparkSession, directory: Path) -> Findings:
    return audit(read_events(spark, str(directory)), str(directory))


def serious(found: Findings) -> dict[str, int]:
    return {problem.name: problem.count for problem in found.problems if problem.serious}


def test_a_sound_history_passes(command: CliRunner, tmp_path: Path) -> None:
    with Planted(tmp_path / "history") as planted:
        planted.sound()
    result = run(command, "--history", str(tmp_path / "history"), "--report", str(tmp_path / "audit.html"))
    assert result.exit_code == 0, result.output
    assert "PASSED: No confirmed message was lost: 200 were confirmed and delivered." in result.stdout
    assert (
        "attempted 200  confirmed 200  ok 200  lost 0  unexpected 0  duplicated 4  recovered 0"
        in result.stdout
    )
    assert "No confirmed message was lost" in (tmp_path / "audit.html").read_text()


@pytest.mark.parametrize("fault", FAULTS)
def test_one_planted_fault_is_found_and_fails(command: CliRunner, tmp_path: Path, fault: str) -> None:
    with Planted(tmp_path / "history") as planted:
        planted.sound()
        getattr(planted, fault)()
    result = run(command, "--history", str(tmp_path / "history"), "--json")
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert not found["passed"]
    reported = {problem["name"]: problem["count"] for problem in found["problems"] if problem["serious"]}
    assert reported == {fault: 1}, "this fault, and no other"


def test_all_planted_faults_together_are_distinguished(spark: SparkSession, tmp_path: Path) -> None:
    with Planted(tmp_path) as planted:
        planted.sound()
        for fault in ("lost", "split", "divergences"):
            getattr(planted, fault)()
        planted.writer.delivered(QUEUE, None, None, NODES[0], 5, redelivered=False, time_ns=at(2040))
        planted.unflagged()
        planted.writer.attempted(QUEUE, 9, 1, NODES[0], time_ns=at(2060))
        planted.writer.attempted(QUEUE, 9, 2, NODES[0], time_ns=at(2061))
        for number in (2, 1):
            planted.writer.delivered(QUEUE, 9, number, NODES[0], 5, redelivered=False, time_ns=at(2070))
    found = judged(spark, tmp_path)
    assert serious(found) == {
        "lost": 1, "unexpected": 1, "unflagged": 1, "split": 1, "divergences": 1, "inversions": 1,
    }  # fmt: skip
    assert found.verdict == "1 confirmed message was lost, and 5 other problems"
    assert found.totals["recovered"] == 2
    assert [(row["publisher"], row["number"]) for row in found.examples["lost"]] == [(2, 1)]
    assert [(row["publisher"], row["number"]) for row in found.examples["unexpected"]] == [(None, None)]
    assert [(row["publisher"], row["number"]) for row in found.examples["unflagged"]] == [(1, MESSAGES - 1)]
    assert [(row["number"], row["after"]) for row in found.inversions] == [(1, 2)]


def test_a_loss_is_put_to_its_fault_and_its_epoch(spark: SparkSession, tmp_path: Path) -> None:
    with Planted(tmp_path) as planted:
        planted.sound()
        planted.publish(1, 500, publisher=2)
        planted.publish(2, 1500, publisher=2)
        planted.publish(3, 1600, publisher=2)
        planted.publish(4, 2050, publisher=2)
    found = judged(spark, tmp_path)
    assert {(row["fault"], row["relation"]): row["lost"] for row in found.lost_by_fault} == {
        (0, "during"): 2, (0, "before"): 1, (None, "apart"): 1,
    }  # fmt: skip
    assert {row["epoch"]: row["lost"] for row in found.lost_by_epoch} == {1: 1, 2: 3}
    assert sum(row["lost"] for row in found.lost_over_time) == 4
    assert found.faults[0]["begin_ns"] == KILL_FROM_NS


def test_a_returned_message_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        history.attempted(QUEUE, 2, 1, NODES[0], time_ns=at(100))
        history.returned(QUEUE, 2, 1, NODES[0], time_ns=at(101))
        history.confirmed(QUEUE, 2, [1], NODES[0], time_ns=at(102))
    verdicts = message_outcomes.judged(message_outcomes.messages(read_events(spark, str(tmp_path))))
    totals = message_outcomes.classes(verdicts).collect()[0]
    assert (totals["attempted"], totals["returned"], totals["confirmed"], totals["lost"]) == (1, 1, 0, 0)


def test_a_reconnected_publisher_starts_a_new_order(spark: SparkSession, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        for number in range(4):
            if number == 2:
                history.disconnected(NODES[0], publisher=1, time_ns=at(15))
            history.attempted(QUEUE, 1, number, NODES[0], time_ns=at(10 * number))
        for place, number in enumerate((2, 0, 1, 3)):
            history.delivered(QUEUE, 1, number, NODES[0], 1, redelivered=False, time_ns=at(50 + place))
    events = read_events(spark, str(tmp_path))
    assert order.inversions(events).count() == 0
    assert order.inversions(events, incarnations=False).count() == 2


def test_silence_latency_and_what_was_left_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    with Planted(tmp_path) as planted:
        for number in range(100):
            planted.message(number, number if number < 50 else number + 4000)
        planted.writer.attempted(QUEUE, 3, 1, NODES[0], time_ns=at(0))
        planted.writer.drained(QUEUE, left=3, time_ns=at(5000))
    found = judged(spark, tmp_path)
    assert found.passed
    assert [row["queue"] for row in found.not_drained] == [QUEUE], "three messages stayed in it"
    silences = {(row["node"], row["kind"]): row for row in found.silences}
    at_mirror2 = silences[NODES[1], "confirmed"]
    assert at_mirror2["silence_ns"] == 4001 * 1_000_000
    assert (at_mirror2["from_ns"], at_mirror2["to_ns"]) == (at(50), at(4051))
    assert silences[NODES[0], "confirmed"]["silence_ns"] == at(4099) - START_NS, "it never confirmed"
    cluster_wide = {row["kind"]: row for row in found.cluster_silences}
    assert cluster_wide["confirmed"]["silence_ns"] == 4001 * 1_000_000
    by_measure = {row["measure"]: row for row in found.latencies}
    assert by_measure["confirm"]["p50"] == pytest.approx(1e6, rel=0.012)
    assert by_measure["confirm"]["max"] == 1_000_000
    assert by_measure["delivery"]["p99"] == pytest.approx(2e6, rel=0.012)
    assert sum(row["events"] for row in found.rates if row["kind"] == "confirmed") == 100


def test_the_silence_of_a_killed_node_does_not_read_as_an_outage(command: CliRunner, tmp_path: Path) -> None:
    """One node is away for five seconds; the others confirm every ten milliseconds."""
    with Planted(tmp_path) as planted:
        for number in range(600):
            planted.writer.attempted(QUEUE, 1, number, NODES[1], time_ns=at(10 * number))
            planted.writer.confirmed(QUEUE, 1, [number], NODES[1], time_ns=at(10 * number + 1))
            planted.writer.delivered(
                QUEUE, 1, number, NODES[1], 1, redelivered=False, time_ns=at(10 * number + 2)
            )
        for number, milliseconds in enumerate((0, 5500)):
            planted.writer.attempted(QUEUE, 2, number, NODES[0], time_ns=at(milliseconds))
            planted.writer.confirmed(QUEUE, 2, [number], NODES[0], time_ns=at(milliseconds + 1))
            planted.writer.delivered(
                QUEUE, 2, number, NODES[0], 1, redelivered=False, time_ns=at(milliseconds + 2)
            )
        fault = planted.writer.fault_began("kill", NODES[0], time_ns=at(400))
        planted.writer.fault_ended(fault, time_ns=at(5400))
    said = run(command, "--history", str(tmp_path)).stdout
    assert "    the whole cluster: 10 ms (the outage for clients that may connect to any node)\n" in said
    assert f"    {NODES[0]}: 5,500 ms (no outage of the cluster: kill of this node, for 5.0 s)\n" in said
    assert f"    {NODES[1]}: 10 ms\n" in said


def test_a_history_without_publishes_does_not_pass(spark: SparkSession, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        history.fault_began("kill", NODES[0])
    found = judged(spark, tmp_path)
    assert serious(found) == {"nothing": 1}
    assert found.verdict == "The history has no publishes"


def test_several_runs_are_judged_apart(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        with HistoryWriter(tmp_path, f"run-{number}", run=number) as history:
            history.attempted(QUEUE, 1, 1, NODES[0], time_ns=at(number))
            history.confirmed(QUEUE, 1, [1], NODES[0], time_ns=at(number + 1))
            if number != 1:
                history.delivered(QUEUE, 1, 1, NODES[0], 1, redelivered=False, time_ns=at(number + 2))
    found = judged(spark, tmp_path)
    assert found.runs == 3
    assert [row["run"] for row in found.examples["lost"]] == [1]


def test_the_session_is_left_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    test_a_history_without_publishes_does_not_pass(spark, tmp_path)
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
