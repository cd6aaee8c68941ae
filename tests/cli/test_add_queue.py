"""Command add_queue: a queue and its named copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.metadata.commands import PutQueue, PutVhost
from mirrormq.metadata.records import Queue, Vhost
from tests.cli.support import ControlledNode, run_ctl, served


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlledNode]:
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("MIRRORMQ_NODE", raising=False)
    with served(tmp_path / "run") as running:
        yield running


def mirroring(*copies: dict[str, str]) -> str:
    return "mirroring=" + json.dumps({"copies": list(copies)})


def sources(node: ControlledNode, vhost: str = "/") -> dict[str, object]:
    """Return the source of each queue that is a copy."""
    found = node.live.queues(vhost)
    assert all(row["durable"] for row in found)
    return {
        row["name"]: next((value for name, _, value in row["arguments"] if name == "x-copy-from"), None)
        for row in found
    }


def test_the_command_of_the_text_makes_a_queue_and_its_copy(node: ControlledNode) -> None:
    words = ("add_queue", "myqueue", """mirroring={"copies": [{"src_name": "otherq", "dst_tag": ""}]}""")
    for _ in range(2):
        assert run_ctl(*words) == (
            0, "Adding queue 'myqueue' to vhost '/' ...\nQueue 'myqueue' is declared, copied to otherq\n", "",
        )  # fmt: skip
    assert sources(node) == {"myqueue": None, "otherq": "myqueue"}


def test_a_tag_stands_behind_the_name_of_the_copy(node: ControlledNode) -> None:
    node.metadata.write(PutVhost(Vhost("v")))
    copies = mirroring({"src_name": "q", "dst_tag": ".east"}, {"src_name": "q", "dst_tag": ".west"})
    assert run_ctl("-q", "-p", "v", "add_queue", "q", copies)[0] == 0
    assert sources(node, "v") == {"q": None, "q.east": "q", "q.west": "q"}
    assert sources(node) == {}


def test_without_mirroring_it_is_just_a_queue(node: ControlledNode) -> None:
    assert run_ctl("-q", "add_queue", "q") == (0, "Queue 'q' is declared\n", "")
    assert sources(node) == {"q": None}


@pytest.mark.parametrize(
    ("words", "code", "explanation"),
    [
        (["q", "mirrored=true"], 64, "Only mirroring=JSON may follow the queue's name: mirroring='{"),
        (["q", "mirroring={}", "more"], 64, "Only mirroring=JSON may follow"),
        (["q", "mirroring=copies"], 65, "JSON is malformed"),
        (["q", 'mirroring={"copies": [{}]}'], 65, "missing required field `src_name` - at `$.copies[0]`"),
        (["q", 'mirroring={"copy": []}'], 65, "unknown field `copy`"),
        (["q", mirroring({"src_name": ""})], 65, "its src_name is empty"),
        (["q", mirroring({"src_name": "q"})], 65, "'q' cannot be a copy of itself"),
        (["q", mirroring({"src_name": "c"}, {"src_name": "c"})], 65, "Two copies have the same name"),
        (["q", mirroring({"src_name": "c" * 256})], 65, "between 1 and 255 bytes"),
        (["q", mirroring({"src_name": "amq.copy"})], 70, "contains reserved prefix 'amq.*'"),
        (["q", mirroring({"src_name": "taken"})], 70, "inequivalent arg 'x-copy-from' for queue 'taken'"),
        (["mine"], 70, "cannot obtain exclusive access to locked queue 'mine'"),
        (["-p", "nowhere", "q"], 65, "Virtual host 'nowhere' does not exist"),
    ],
)
def test_an_impossible_request_is_explained_and_changes_nothing(
    node: ControlledNode, words: list[str], code: int, explanation: str
) -> None:
    node.metadata.write(PutQueue(Queue("/", "taken")))
    node.metadata.write(PutQueue(Queue("/", "mine", durable=False, exclusive=True)))
    found = run_ctl("add_queue", *words)
    assert found[0] == code
    assert explanation in found[2]
    assert {queue.name for queue in node.metadata.state.queues.values()} == {"taken", "mine"}
