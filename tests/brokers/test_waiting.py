"""What a process at work is blamed for, and what one at rest is not."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.brokers.waiting import Waiting


def test_who_works_is_blamed_for_the_wait_and_who_rests_is_not() -> None:
    resting = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    working = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.5)  # both have started
        for_resting, for_working = Waiting(resting.pid), Waiting(working.pid)
        deadline = time.monotonic() + 60
        while for_working.caused_s() < 0.5:
            assert time.monotonic() < deadline, "a process that never rests was hardly at work"
            time.sleep(0.05)
        assert for_resting.caused_s() < 0.3
    finally:
        working.kill()
        working.wait()
        resting.communicate()
