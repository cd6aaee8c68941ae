"""The example in the repository does what its first line says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mirrormq.testing import Cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "publish_and_consume.py"


def test_the_example_publishes_and_consumes() -> None:
    with Cluster(nodes=1) as cluster:
        done = subprocess.run(
            [sys.executable, str(EXAMPLE), cluster.uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert done.stdout.splitlines() == ["published 10 messages, all confirmed"] + [
        f"received order {number}" for number in range(10)
    ]
