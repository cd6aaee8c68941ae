"""The example works as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mirrormq.spark.session import SHORT_WORK
from tests.brokers.mirrormq import MirrorMQ

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders.py"


def test_orders_are_counted_once(mirrormq: MirrorMQ) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    done = subprocess.run(
        [sys.executable, EXAMPLE, uri], capture_output=True, text=True, timeout=170, check=False,
        env={**os.environ, "SPARK_SUBMIT_OPTS": SHORT_WORK},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert lines[-1].endswith("every order was counted once")
