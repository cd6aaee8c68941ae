"""Runner of a link whose definition meets an unexpected error."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from mirrormq.bridges.link_kinds import LinkKind
from mirrormq.metadata.link_records import Link
from mirrormq.metadata.state import MetadataState
from mirrormq.runtime.application import Application
from mirrormq.runtime.link_runner import LinkRunner


class Notes:
    """Application of a node, as far as a runner needs it: notes faults, log lines and events."""

    def __init__(self) -> None:
        self.metadata = SimpleNamespace(state=MetadataState())
        self.settings = SimpleNamespace(name="a@host")
        self.broker = SimpleNamespace(events=SimpleNamespace(link_changed=self._changed))
        self.faults: list[Exception] = []
        self.lines: list[str] = []
        self.events = 0

    def _changed(self, _event: object) -> None:
        self.events += 1

    def fault(self, _connection: None, error: Exception) -> None:
        self.faults.append(error)

    def log_link(self, _level: str, text: str) -> None:
        self.lines.append(text)


async def test_an_unexpected_error_in_a_plan_is_the_reason_of_that_link() -> None:
    notes, ended, again = Notes(), [], asyncio.Event()

    def plan(*_arguments: Any) -> Any:
        if notes.faults:
            again.set()
        raise KeyError("src-queue")

    kind = LinkKind(lambda state, key: None, plan, lambda definition: ((), ()))
    record = Link("/", "shovel", "s", "a@host", 1, 1)
    runner = LinkRunner(cast(Application, notes), record, kind, {}, lambda _, done: ended.append(done), 0.0)
    runner.start()
    text = "unexpected error, see the log of this node: 'src-queue'"
    assert (runner.status().state, runner.status().reason) == ("terminated", text)
    assert [type(error) for error in notes.faults] == [KeyError]
    assert notes.lines == [f"shovel 's' in vhost '/': terminated: {text}"]
    assert notes.events == 1
    await asyncio.wait_for(again.wait(), 10)
    assert not ended, "the runner tries again after a pause"
    runner.stop()
    assert ended == [False]
