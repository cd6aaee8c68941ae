"""Celery with real workers: results, groups, retries, countdowns, priorities, remote control, kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu.pools
import pytest
from celery import chain, group
from celery.exceptions import TaskRevokedError

from tests.clients import celery_tasks as tasks
from tests.clients.support import WAIT_S, uri
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
COUNTDOWN_S = 5
"""Far longer than it takes to ask a worker something or to give it another task, on a busy machine."""


class Worker:
    """A celery worker with one prefork child, in a session of its own."""

    def __init__(self, broker: Any, queue: str, output: Path) -> None:
        self.name = f"{queue}@localhost"
        self._output = output
        with open(output, "wb") as file:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "celery", "-A", "tests.clients.celery_tasks", "worker",
                    "--pool=prefork", "--concurrency=1", f"--queues={queue}", f"--hostname={self.name}",
                    "--without-mingle",
                ],
                cwd=ROOT,
                env=os.environ | {tasks.BROKER_VARIABLE: uri(broker)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        """A worker that answers a ping consumes from its queues."""

        def ready() -> bool:
            assert self._process.poll() is None, self._output.read_text()
            return bool(tasks.app.control.ping(destination=[self.name], timeout=1, limit=1))

        until(ready, "the worker's first pong")

    def consume(self, queue: str) -> None:
        """Tell the worker to take tasks from one more queue."""
        [reply] = tasks.app.control.add_consumer(
            queue, destination=[self.name], reply=True, timeout=WAIT_S, limit=1
        )
        assert "ok" in reply[self.name]

    def kill(self) -> None:
        """End the worker and its child at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture(scope="module")
def celery_app(broker: Any) -> Iterator[None]:
    """The app of this process, pointed at the broker."""
    tasks.app.conf.update(broker_url=uri(broker))
    yield
    tasks.app.backend.result_consumer.stop()
    tasks.app.close()
    kombu.pools.reset()


@pytest.fixture(scope="module")
def worker(celery_app: None, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker for the tests of this file."""
    running = Worker(broker, tasks.QUEUE, tmp_path_factory.mktemp("celery") / "output")
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


def in_queue(name: str, task: Any, *arguments: Any, **options: Any) -> Any:
    return task.apply_async(arguments, queue=name, **options)


@pytest.mark.usefixtures("worker")
def test_results_come_back() -> None:
    assert tasks.add.delay(2, 3).get(timeout=WAIT_S) == 5
    with pytest.raises(ValueError, match="never"):
        tasks.always_fails.delay().get(timeout=WAIT_S)


@pytest.mark.usefixtures("worker")
def test_groups_and_chains_of_tasks() -> None:
    results = group(tasks.add.s(number, number) for number in range(20)).apply_async()
    assert results.get(timeout=WAIT_S) == [2 * number for number in range(20)]
    assert chain(tasks.add.s(1, 2), tasks.add.s(4), tasks.add.s(8)).apply_async().get(timeout=WAIT_S) == 15


@pytest.mark.usefixtures("worker")
def test_a_task_is_retried_until_it_succeeds() -> None:
    assert tasks.fails_twice.delay().get(timeout=WAIT_S) == 2


@pytest.mark.usefixtures("worker")
def test_a_task_waits_for_its_countdown() -> None:
    asked_at = time.time()
    later = tasks.now.apply_async(countdown=COUNTDOWN_S)
    at_once = tasks.now.delay()
    assert at_once.get(timeout=WAIT_S) < later.get(timeout=WAIT_S)
    assert later.get() >= asked_at + COUNTDOWN_S


def test_higher_priorities_run_first(worker: Worker, name: str) -> None:
    """The worker is told of the queue when all of them wait in it."""
    waiting = {priority: in_queue(name, tasks.position, priority=priority) for priority in (1, 9, 3, 6)}
    worker.consume(name)
    order = {priority: result.get(timeout=WAIT_S) for priority, result in waiting.items()}
    assert sorted(order, key=lambda priority: order[priority]) == [9, 6, 3, 1]


def test_a_worker_answers_to_remote_control(worker: Worker) -> None:
    inspect = tasks.app.control.inspect(destination=[worker.name], timeout=WAIT_S, limit=1)
    assert inspect.ping() == {worker.name: {"ok": "pong"}}
    assert tasks.QUEUE in {queue["name"] for queue in inspect.active_queues()[worker.name]}
    assert tasks.add.name in inspect.registered()[worker.name]


def test_a_revoked_task_does_not_run(worker: Worker) -> None:
    waiting = tasks.now.apply_async(countdown=COUNTDOWN_S)
    inspect = tasks.app.control.inspect(destination=[worker.name], timeout=WAIT_S, limit=1)

    def scheduled() -> bool:
        return waiting.id in {entry["request"]["id"] for entry in inspect.scheduled()[worker.name]}

    until(scheduled, "the worker has the task")
    waiting.revoke()
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=WAIT_S)


def test_a_running_task_can_be_ended(worker: Worker, tmp_path: Path) -> None:
    started = tmp_path / "started"
    running = tasks.record_and_wait.delay(str(started), str(tmp_path / "never"))
    until(started.exists, "the task has started")
    running.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        running.get(timeout=WAIT_S)
    assert tasks.add.delay(1, 1).get(timeout=WAIT_S) == 2


def test_the_task_of_a_killed_worker_goes_to_another(
    broker: Any, worker: Worker, name: str, tmp_path: Path
) -> None:
    started, release = tmp_path / "started", tmp_path / "release"
    doomed = Worker(broker, name, tmp_path / "output")
    try:
        result = in_queue(name, tasks.record_and_wait, str(started), str(release))
        until(started.exists, "the task has started in the first worker")
    finally:
        doomed.kill()
    release.touch()
    worker.consume(name)
    assert result.get(timeout=WAIT_S) is True
    assert started.read_text().split() == ["new", "redelivered"]
