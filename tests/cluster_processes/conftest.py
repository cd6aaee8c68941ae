"""Nodes that are gone when a test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster_processes.nodes import Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Three nodes that a test starts."""
    found = Nodes(tmp_path)
    try:
        yield found
    finally:
        found.end()
