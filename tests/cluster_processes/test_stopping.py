"""A node is stopped whatever it waits for: an operator need not wait for nodes that are out of reach."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from mirrormq.control.control_protocol import ControlError
from tests.cluster_processes.nodes import Nodes
from tests.waiting import until


class Starting(threading.Thread):
    """`start_app` in another shell."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__()
        self.said = ""
        self._nodes = nodes
        self.start()

    def run(self) -> None:
        try:
            self._nodes.ask(2, "start_app")
        except ControlError as error:
            self.said = error.text


@pytest.fixture
def starting(nodes: Nodes) -> Iterator[Starting]:
    """The third node has said that it will serve clients, and nobody can agree to it."""
    nodes.form()
    nodes.ask(2, "stop_app")
    for index in (0, 1):
        os.kill(nodes.processes[index].pid, signal.SIGSTOP)
    starting = Starting(nodes)
    until(lambda: nodes.ask(2, "ping")["app"] == "starting", lambda: nodes.log(2))  # type: ignore[index]
    yield starting
    for index in (0, 1):
        os.kill(nodes.processes[index].pid, signal.SIGCONT)
    starting.join()


def test_the_application_is_stopped_before_the_others_agreed_to_its_start(
    nodes: Nodes, starting: Starting
) -> None:
    began = time.monotonic()
    nodes.ask(2, "stop_app")
    starting.join()
    assert starting.said == "the application was stopped before it could start"
    assert time.monotonic() - began < 10
    for index in (0, 1):
        os.kill(nodes.processes[index].pid, signal.SIGCONT)
    nodes.await_running(0, 0, 1)
    nodes.ask(2, "start_app")
    nodes.await_running(0, 0, 1, 2)


def test_the_process_is_stopped_before_the_others_agreed_to_its_start(
    nodes: Nodes, starting: Starting
) -> None:
    assert nodes.stop(2) == 0
