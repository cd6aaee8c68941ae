"""Real nodes, real faults, a real verdict."""

from __future__ import annotations

from pathlib import Path
from threading import Timer

import pytest

from mirrormq.chaos.chaos_run import ChaosError, ChaosOptions, ChaosRun
from mirrormq.chaos.process_faults import FaultSpan, ProcessFaults
from mirrormq.chaos.verdict import judge
from mirrormq.history import HistoryWriter
from mirrormq.testing import Cluster

HASTY = FaultSpan(fault_s=(0.5, 1.5), calm_s=(0.5, 1.5))


def quiet(part: float, what: str) -> None:
    """No progress is shown in tests."""


def test_one_node_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    options = ChaosOptions(tmp_path, nodes=1, duration_s=8, kinds=("kill", "restart"), seed=3, span=HASTY)
    outcome = ChaosRun(options, quiet).run()
    assert outcome.faults >= 2
    assert outcome.verdict.confirmed > 1000
    assert outcome.verdict.sound, outcome.verdict.lines()
    assert not outcome.left
    with pytest.raises(ChaosError, match="choose an empty directory"):
        ChaosRun(options, quiet).run()


def test_a_policy_is_set_when_the_node_serves_again(tmp_path: Path) -> None:
    """Set a policy on a node that may still be recovering from the previous fault."""
    with Cluster(nodes=1) as cluster:
        cluster.ctl("stop_app")
        returns = Timer(1.0, cluster.ctl, ("start_app",))
        returns.start()
        history = HistoryWriter(tmp_path, "chaos")
        faults = ProcessFaults(cluster, 1, ("policy",), 1, history, HASTY, lambda text: None)
        pauses = list(faults._policy(0, 1.0))
        returns.join()
        assert len(pauses) == 2 and '"ha-mode":"all"' in cluster.ctl("list_policies")


@pytest.mark.slow
def test_three_mirrored_nodes_for_a_minute_of_kills_freezes_restarts_and_policies(tmp_path: Path) -> None:
    options = ChaosOptions(tmp_path, nodes=3, duration_s=60, seed=7, rate=300)
    outcome = ChaosRun(options, quiet).run()
    assert outcome.faults >= 4
    assert outcome.verdict.confirmed > 10_000
    assert outcome.verdict.sound, outcome.verdict.lines()
    assert not outcome.left


def test_a_history_with_a_hole_is_judged_so(tmp_path: Path) -> None:
    """The check must be able to fail: take away what one consumer saw."""
    ChaosRun(ChaosOptions(tmp_path, nodes=1, duration_s=2, kinds=(), consumers=1, queues=1), quiet).run()
    assert judge(tmp_path).sound
    for file in tmp_path.glob("consumer-*.parquet"):
        file.unlink()
    assert len(judge(tmp_path).lost) > 100
