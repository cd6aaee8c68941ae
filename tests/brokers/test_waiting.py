"""Waiting time that counts: a busy process is charged for it, an idle one is not."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.brokers.waiting import Waiting


def test_a_working_process_counts_for_the_wait_and_an_idle_one_does_not() -> None:
    resting = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    working = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert resting.stdout is not None and resting.stdout.readline(), "it has started, and rests"
        for_resting, for_working = Waiting(resting.pid), Waiting(working.pid)
        # Few wake-ups: at each one this thread stands in line itself, and that time is subtracted.
        for pause_s in (0.5, 1, 2, 4, 8, 16, 32):
            time.sleep(pause_s)
            if for_working.caused_s() >= 0.4:
                break
        assert for_working.caused_s() >= 0.4, "a process that never rests is at work"
        assert for_resting.caused_s() < 0.3
    finally:
        working.kill()
        working.wait()
        resting.communicate()
