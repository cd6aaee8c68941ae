"""Take the screenshot of README.md: the Cluster page of a real cluster shortly after its master was killed.

python docs/images/take_failover.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from mirrormq.testing import Cluster

TARGET = Path(__file__).with_name("failover.png")
QUEUES = ("orders", "invoices")
LOAD = ["--durable", "--persistent", "--rate", "400", "--confirm-window", "100", "--duration", "60"]


def main() -> None:
    with Cluster(nodes=3, mirror_all=True) as cluster, sync_playwright() as playwright:
        loads = [
            subprocess.Popen(
                [sys.executable, "-m", "mirrormq", "perf", "--uri", cluster.uri(1), "--queue", queue, *LOAD],
                stdout=subprocess.DEVNULL,
            )
            for queue in QUEUES
        ]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"http://127.0.0.1:{cluster.management_port(1)}/")
        page.fill("[name=username]", "guest")
        page.fill("[name=password]", "guest")
        page.keyboard.press("Enter")
        page.wait_for_selector("nav.places")
        page.evaluate("location.hash = '#/cluster'")
        time.sleep(12)  # let the charts have something to show
        cluster.kill(0)
        time.sleep(8)
        page.screenshot(path=str(TARGET))
        browser.close()
        for load in loads:
            load.terminate()
            load.wait()


if __name__ == "__main__":
    main()
