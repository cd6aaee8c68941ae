"""The tasks of test_celery.py, imported by the tests and by the worker processes they start."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

BROKER_VARIABLE = "CLIENTS_CELERY_BROKER"
"""Tells a worker process where the broker is."""
QUEUE = "celery-tests"
RELEASE_DEADLINE_S = 60.0

app = Celery("clients", broker=os.environ.get(BROKER_VARIABLE), backend="rpc://")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_default_queue=QUEUE,
    task_queue_max_priority=9,
    worker_prefetch_multiplier=1,
    result_expires=60,
    broker_connection_retry_on_startup=True,
)
_positions = itertools.count()


@app.task
def add(left: int, right: int) -> int:
    return left + right


@app.task(bind=True, max_retries=3)
def fails_twice(self: Any) -> int:
    """Succeeds at the third attempt and says how many retries that took."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.2, exc=ValueError("not yet"))
    return int(self.request.retries)


@app.task
def always_fails() -> None:
    raise ValueError("never")


@app.task
def now() -> float:
    """When the task ran, by the clock that the tests read too."""
    return time.time()


@app.task
def position() -> int:
    """Number of these tasks that ran before in this worker."""
    return next(_positions)


@app.task(bind=True)
def record_and_wait(self: Any, started: str, release: str) -> bool:
    """Write a line to `started`, then wait for `release` to exist."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    with open(started, "a") as file:
        file.write(f"{'redelivered' if redelivered else 'new'}\n")
    deadline = time.monotonic() + RELEASE_DEADLINE_S
    while not Path(release).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return redelivered
