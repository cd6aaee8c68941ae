"""Export of orphans to a file in small steps: the node continues, and an interrupted export leaves no
file."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from mirrormq.cluster.orphan_restorer import OrphanRestorer
from mirrormq.cluster.orphan_store import BATCH_MESSAGES
from mirrormq.control.commands.orphans import export_orphans
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.live_view import LiveView
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Policy
from tests.cluster.test_orphan_return import set_aside, start

MESSAGES = 2 * BATCH_MESSAGES + 1
KEEP = Policy("/", "p", "^q$", definition={"ha-mode": "all", "ha-orphans": "keep"})


class BackingQueueFixture:
    """Node with a batch of orphans, as a command sees it."""

    def __init__(self) -> None:
        node, _, self.orphans = start()
        node.write(c.PutPolicy(KEEP))
        set_aside(self.orphans, "q", *range(1, MESSAGES + 1))
        self._live = LiveView(node.broker, OrphanRestorer(node.broker, self.orphans))
        self.stopped = False

    @property
    def live(self) -> LiveView:
        if self.stopped:
            raise ControlError("the node does not serve clients")
        return self._live

    def export(self, file: Path) -> Generator[Any, None, str]:
        return export_orphans(cast(Any, self), Request("export_orphans", [str(file)])).__await__()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orphans.json"


def result_of(export: Generator[Any, None, str]) -> str:
    """Run an export to its end, as a loop would, and return its result."""
    with pytest.raises(StopIteration) as end:
        while True:
            next(export)
    return str(end.value.value)


def orphans_in(file: Path) -> list[int]:
    return [json.loads(line)["sequence"] for line in file.read_text().splitlines()]


def test_others_have_their_turn_while_a_batch_is_written(file: Path) -> None:
    export = BackingQueueFixture().export(file)
    for _ in range(3):
        next(export)
    assert result_of(export) == f"{MESSAGES} messages were written to {file}"
    assert orphans_in(file) == list(range(1, MESSAGES + 1))


def test_a_batch_that_is_deleted_meanwhile_ends_there(file: Path) -> None:
    backing_queue = BackingQueueFixture()
    export = backing_queue.export(file)
    next(export)
    backing_queue.orphans.delete(1)
    assert result_of(export) == f"{BATCH_MESSAGES} messages were written to {file}"
    set_aside(backing_queue.orphans, "q", 7)
    assert [message.sequence for message in backing_queue.orphans.read(1)] == [7], (
        "its number may be used again"
    )


def test_a_node_that_stops_meanwhile_leaves_no_file(file: Path) -> None:
    backing_queue = BackingQueueFixture()
    export = backing_queue.export(file)
    next(export)
    backing_queue.stopped = True
    with pytest.raises(ControlError, match="does not serve clients"):
        next(export)
    assert not file.exists()


def test_a_file_that_is_there_is_not_touched(file: Path) -> None:
    file.write_text("mine")
    with pytest.raises(ControlError, match=r"cannot be written: File exists"):
        next(BackingQueueFixture().export(file))
    assert file.read_text() == "mine"
