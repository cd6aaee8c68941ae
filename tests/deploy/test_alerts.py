"""Alert rules: promtool accepts them, each fires on its fault, and nodes export every metric in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from mirrormq.testing import Cluster
from tests.deploy.nodes import ROOT
from tests.needs import not_installed

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
CASES = Path(__file__).with_name("alert_cases.yaml")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason=not_installed("promtool", "prometheus"))


def rules() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def promtool(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run(
        [PROMTOOL, *words], cwd=directory, capture_output=True, text=True, check=False, timeout=60
    )


def scene(directory: Path, cases: dict[str, Any]) -> None:
    shutil.copy(ALERTS, directory / "alerts.yaml")
    (directory / "cases.yaml").write_text(yaml.safe_dump(cases))


@needs_promtool
def test_promtool_accepts_the_rules_and_their_cases(tmp_path: Path) -> None:
    scene(tmp_path, yaml.safe_load(CASES.read_text()))
    checked = promtool("check", "rules", "alerts.yaml", directory=tmp_path)
    assert checked.returncode == 0 and f"{len(rules())} rules found" in checked.stdout, checked
    tested = promtool("test", "rules", "cases.yaml", directory=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@needs_promtool
@pytest.mark.parametrize("alert", sorted(rules()))
def test_each_alert_fires_on_its_fault_and_not_before(alert: str, tmp_path: Path) -> None:
    """An alert that does not fire passes `exp_alerts: []`, so both directions are asked."""
    cases = yaml.safe_load(CASES.read_text())
    case = cases["tests"][0]
    # The node is only down for ten minutes of the case, and a linear prediction has no healthy start.
    times = {"MirrorMQNodeDown": "5m"}
    healthy = {"MirrorMQDiskFillsUp": "10m", "MirrorMQSlowDisk": "5m"}
    case["alert_rule_test"] = [{"eval_time": healthy.get(alert, "1m"), "alertname": alert, "exp_alerts": []}]
    scene(tmp_path, cases)
    silent = promtool("test", "rules", "cases.yaml", directory=tmp_path)
    assert silent.returncode == 0, silent.stdout + silent.stderr
    case["alert_rule_test"] = [{"eval_time": times.get(alert, "28m"), "alertname": alert, "exp_alerts": []}]
    scene(tmp_path, cases)
    assert promtool("test", "rules", "cases.yaml", directory=tmp_path).returncode != 0


def test_a_node_exports_every_metric_of_the_rules() -> None:
    names = set()
    for rule in rules().values():
        names |= set(re.findall(r"\b(?:rabbitmq|mirrormq)_\w+", rule["expr"]))
    with Cluster(nodes=1) as cluster:
        text = requests.get(f"http://127.0.0.1:{cluster.management_port(0)}/metrics", timeout=60).text
    exported = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    assert names <= exported, sorted(names - exported)
