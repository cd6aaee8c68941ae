"""Workflow files for a hosted CI: actionlint finds no mistake in them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.node_packages import need_node_package
from tests.test_tidy import ROOT

HERE = Path(__file__).resolve().parent / "workflow_lint"
LINT_DEADLINE_S = 60.0
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def lint(path: Path) -> list[dict[str, Any]]:
    node = need_node_package(HERE, "actionlint")
    done = subprocess.run(
        [node, "lint.mjs", str(path)], cwd=HERE, capture_output=True, text=True,
        timeout=LINT_DEADLINE_S, check=True,
    )  # fmt: skip
    findings: list[dict[str, Any]] = json.loads(done.stdout)
    return findings


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_no_mistakes(path: Path) -> None:
    assert lint(path) == []


def test_a_misspelt_variable_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("matrix.python }}", "matrix.pyton }}"))
    assert {finding["kind"] for finding in lint(wrong)} == {"expression"}
