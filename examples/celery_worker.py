"""Celery: a worker with a task that is retried, and a caller that waits for the results.

The worker runs in a separate process, as `celery -A celery_worker worker` would. It acknowledges late:
the broker redelivers the task of a failed worker to another one.

python examples/celery_worker.py [URI]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from celery import Celery
from place import broker

URI = "EXAMPLE_BROKER"
"""Variable with the broker's URI for the worker's process."""
WAIT_S = 50

app = Celery("examples", broker=os.environ.get(URI), backend="rpc://")
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)


@app.task(name="price", bind=True, max_retries=3)
def price(self: Any, product: str) -> int:
    """Request a price from a shop that is busy the first time."""
    if self.request.retries == 0:
        raise self.retry(countdown=0.2, exc=ConnectionError("the shop is busy"))
    return 100 * len(product)


def main() -> None:
    with broker() as uri:
        app.conf.broker_url = uri
        worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "celery",
                "-A",
                "celery_worker",
                "worker",
                "--pool=solo",
                "--without-mingle",
            ],
            cwd=Path(__file__).parent,
            env={**os.environ, URI: uri},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            orders = {product: price.delay(product) for product in ("tea", "coffee")}
            for product, result in orders.items():
                print(f"{product} costs {result.get(timeout=WAIT_S)}")
        finally:
            worker.terminate()
            worker.wait()


if __name__ == "__main__":
    main()
