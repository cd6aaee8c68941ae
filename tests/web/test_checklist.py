"""Checklist of RabbitMQ's management page in docs/web.md: every function names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `(test_\w+)\.(test_\w+)` \|$", re.M)
FUNCTIONS_MIN = 60


def checklist() -> str:
    text = (ROOT / "docs" / "web.md").read_text()
    return text.partition("## RabbitMQ's page, function by function")[2].partition("\n## ")[0]


def names_in(module: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / "web" / f"{module}.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_function_has_a_browser_test() -> None:
    rows = ROW.findall(checklist())
    assert len(rows) >= FUNCTIONS_MIN
    missing = [f"{module}.{name}" for _, _, module, name in rows if name not in names_in(module)]
    assert not missing


def test_no_row_of_the_checklist_is_unreadable() -> None:
    lines = [line for line in checklist().splitlines() if line.startswith("| ") and "`test_" in line]
    assert [line for line in lines if not ROW.match(line)] == []
