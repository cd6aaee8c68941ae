"""The example works as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders.py"


def test_orders_are_counted_once() -> None:
    """Without an argument, as a reader runs it: it starts a node."""
    done = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, timeout=170, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert lines[-1].endswith("every order was counted once")
