"""Take the screenshots of both READMEs: the Cluster page of a real cluster after its master was killed.

python docs/images/take_failover.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from mirrormq.testing import Cluster

TARGETS = {
    "en-GB": Path(__file__).with_name("failover.png"),
    "zh-CN": Path(__file__).with_name("failover-zh.png"),
}
QUEUES = ("orders", "invoices")
LOAD = ["--durable", "--persistent", "--rate", "400", "--confirm-window", "100", "--duration", "60"]


def open_cluster_page(browser: Browser, cluster: Cluster, language: str) -> Page:
    """Log in at a node that survives, and open the Cluster page."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, locale=language)
    page.goto(f"http://127.0.0.1:{cluster.management_port(1)}/")
    page.fill("[name=username]", "guest")
    page.fill("[name=password]", "guest")
    page.keyboard.press("Enter")
    page.wait_for_selector("nav.places")
    page.evaluate("location.hash = '#/cluster'")
    return page


def main() -> None:
    with Cluster(nodes=3, mirror_all=True) as cluster, sync_playwright() as playwright:
        for queue in QUEUES:
            cluster.ctl("add_queue", queue)  # on the node that is killed
        loads = [
            subprocess.Popen(
                [sys.executable, "-m", "mirrormq", "perf", "--uri", cluster.uri(1), "--queue", queue, *LOAD],
                stdout=subprocess.DEVNULL,
            )
            for queue in QUEUES
        ]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        pages = {language: open_cluster_page(browser, cluster, language) for language in TARGETS}
        time.sleep(12)  # let the charts have something to show
        cluster.kill(0)
        time.sleep(8)
        for language, page in pages.items():
            page.screenshot(path=str(TARGETS[language]))
        browser.close()
        for load in loads:
            load.terminate()
            load.wait()


if __name__ == "__main__":
    main()
