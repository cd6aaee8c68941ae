"""Python in documents: every block is valid, and what it imports from this package exists."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.test_documents import DOCUMENTS, FENCED
from tests.test_tidy import name_of

LANGUAGE = "python"


def blocks(path: Path) -> list[str]:
    found = FENCED.findall(path.read_text())
    return [dedent(block) for language, block in found if language == LANGUAGE]


WITH_PYTHON = [path for path in DOCUMENTS if blocks(path)]


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of each import from this package; the name is empty for a whole module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mirrormq"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("mirrormq"))


def test_there_are_blocks_to_look_at() -> None:
    assert sum(len(blocks(path)) for path in WITH_PYTHON) > 10


@pytest.mark.parametrize("path", WITH_PYTHON, ids=name_of)
def test_python_in_a_document_is_valid_and_imports_what_exists(path: Path) -> None:
    for block in blocks(path):
        for module, name in imported(ast.parse(block)):
            found = importlib.import_module(module)
            if name and not hasattr(found, name):
                importlib.import_module(f"{module}.{name}")
