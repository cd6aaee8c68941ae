"""mirrormqctl does with a cluster what rabbitmqctl 3.10.8 does, and says the same."""

from __future__ import annotations

import difflib

import pytest

from tests.cluster_processes.nodes import Nodes
from tests.cluster_processes.recording import HERE, transcript


@pytest.mark.parametrize(
    ("lines", "recorded"), [("commands.txt", "rabbitmqctl.txt"), ("mirrors.txt", "mirrors.txt")]
)
def test_every_recorded_call_gives_what_rabbitmqctl_gave(nodes: Nodes, lines: str, recorded: str) -> None:
    for index in range(3):
        nodes.spawn(index)
    for index in range(3):
        nodes.await_serving(index)
    expected = (HERE / "transcripts" / recorded).read_text().splitlines()
    found = transcript(nodes, HERE / lines).splitlines()
    difference = list(difflib.unified_diff(expected, found, "rabbitmqctl", "mirrormqctl", lineterm="", n=4))
    assert not difference, "\n".join(difference)
