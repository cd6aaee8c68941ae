"""Ctrl-C ends a job cleanly at any moment, without output of Java and without a Java process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mirrormq.spark.interrupts import noted
from mirrormq.spark.java import find_java

PATIENCE_S = 150.0
pytestmark = pytest.mark.usefixtures("interruptible")

SCRIPT = """
import sys
from mirrormq.spark.spark_session import SHORT_WORK, session_for
try:
    with session_for("test", "local[1]", {"spark.driver.extraJavaOptions": SHORT_WORK}) as spark:
        rows = spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 600000L)")
        print("begun", flush=True)
        rows.write.format("noop").mode("overwrite").save()
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_is_counted_and_the_third_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt), noted() as presses:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert presses.count == 2
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_block_inside_another_knows_what_was_pressed_before_it() -> None:
    with noted() as outer:
        with noted() as inner:
            signal.raise_signal(signal.SIGINT)
            assert (inner.count, outer.count) == (1, 0)
        signal.raise_signal(signal.SIGINT)
        with noted() as inner:
            assert (inner.count, outer.count) == (1, 1)


@pytest.mark.parametrize("moment", ["starting", "begun"])
def test_ctrl_c_ends_spark_without_a_word(tmp_path: Path, moment: str) -> None:
    """While Java starts, and while Spark works."""
    seen = tmp_path / "starting"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        f'#!/bin/sh\ncase "$*" in *PythonGatewayServer*|*pyspark-shell*) touch {seen};; esac\n'
        f'exec {find_java()} "$@"\n'
    )
    java.chmod(0o755)
    said = tmp_path / "said"
    with said.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdout=output, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "JAVA_HOME": str(tmp_path)}, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (seen.exists() if moment == "starting" else said.read_text()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Java as well
        # Its end is the end of all who could write to it.
        _, wrong = process.communicate(timeout=PATIENCE_S)
    finally:
        end_all(process.pid)
    assert (process.returncode, wrong) == (130, "")
    assert said.read_text() == ("" if moment == "starting" else "begun\n")


def end_all(group: int) -> None:
    """End the remaining processes of a session that a test started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
