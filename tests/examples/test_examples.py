"""Every example runs as it stands, without an argument, and does what its first line says.

`examples/orders.py` is run by tests/spark/test_example.py, beside the other tests that start Spark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT_S = 150
"""An example takes less than a minute; a machine that runs other tests beside it may take longer."""

EXPECTED = {
    "publish_and_consume": "published 10 messages, all confirmed\n"
    + "".join(f"received order {number}\n" for number in range(10)),
    "work_queue": """\
invoice 1: done at attempt 1
invoice 2: attempt 1 failed, the printer is out of paper; again later
invoice 3: attempt 1 failed, the printer is out of paper; again later
invoice 2: done at attempt 2
invoice 3: attempt 2 failed, the printer is out of paper; again later
invoice 3: attempt 3 failed, the printer is out of paper; given up
set aside in jobs.failed: 1
""",
    "rpc": "".join(f"{number} squared is {number * number}\n" for number in range(1, 6)),
    "topic_fanout": """\
billing (order.*.paid): order.eu.paid, order.us.paid
warehouse (order.#): order.eu.placed, order.eu.paid, order.us.paid
europe (*.eu.*): order.eu.placed, order.eu.paid, user.eu.created
""",
    "celery_worker": "tea costs 300\ncoffee costs 600\n",
    "failover_drill": """\
400 messages are confirmed; killing mirror1@localhost, the master
1000 messages are confirmed; the longest wait for one was N ms
mirror1@localhost is back, as a mirror
1000 different messages came out: none is lost
""",
}
ON_PEER = {"orders", "place", "test_checkout"}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(
        command, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_as_it_stands(name: str) -> None:
    done = run(str(EXAMPLES / f"{name}.py"))
    assert done.returncode == 0, done.stderr
    assert re.sub(r"\d+ ms", "N ms", done.stdout) == EXPECTED[name]


@pytest.mark.slow
def test_the_tests_of_the_example_pass() -> None:
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = run(*options, str(EXAMPLES / "test_checkout.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_every_example_is_run_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == EXPECTED.keys() | ON_PEER
    listed = set(re.findall(r"^\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    assert listed == names - {"place"}
