"""Damaged files of a stopped node: it starts, says what it dropped, serves the rest and never the damage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.storage import journal_records, segment_header
from tests.durability.node import Node
from tests.durability.traffic import browse, publish_all, ready
from tests.waiting import until

COUNT = 300
EXIT_UNAVAILABLE = 75


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def declare(node: Node, *queues: str) -> None:
    client = node.dial()
    for queue in queues:
        client.declare_queue(queue, durable=True)
    client.close()


def flip(path: Path, at: int) -> None:
    """Flip one bit."""
    with open(path, "r+b") as file:
        file.seek(at)
        octet = file.read(1)[0]
        file.seek(at)
        file.write(bytes((octet ^ 0x10,)))


def find_message(node: Node, number: int) -> tuple[Path, int]:
    """Return the file and offset of a message's body in the journal."""
    for path in node.segments():
        at = path.read_bytes().find(b"%d:" % number + b"." * 100)
        if at >= 0:
            return path, at
    raise AssertionError(f"message {number} is not on disk")


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_flipped_bit_costs_one_message_and_is_reported(node: Node, clean: bool) -> None:
    declare(node, "q")
    publish_all(node, "q", COUNT)
    node.end() if clean else node.kill()
    path, at = find_message(node, 150)
    flip(path, at + 50)
    node.boot()
    found = browse(node, "q", less=1 if clean else 0)
    assert [delivery.number for delivery in found] == [n for n in range(COUNT) if n != 150]
    assert all(not delivery.body.partition(b":")[2].strip(b".") for delivery in found)
    until(lambda: ready(node, "q") == COUNT - 1, "the count is right again")
    pattern = (
        r"not served: 1 message\(s\) of queue \d+ are damaged" if clean else r"dropped \d+ bytes at \d+ of"
    )
    assert re.search(pattern, node.output), node.output


def test_a_flipped_bit_in_a_length_costs_one_message(node: Node) -> None:
    """The scan cannot step over a record whose length is wrong: it looks for the next valid one."""
    declare(node, "q")
    publish_all(node, "q", COUNT)
    node.kill()
    path, at = find_message(node, 200)
    head = path.read_bytes().rfind(bytes((journal_records.MESSAGE, journal_records.DURABLE, 0, 0)), 0, at)
    flip(path, head - journal_records.PREFIX_BYTES + 1)
    node.boot()
    assert [delivery.number for delivery in browse(node, "q")] == [n for n in range(COUNT) if n != 200]
    assert "damaged; skipped to the next valid record" in node.output


def test_a_torn_last_record_is_cut_off_and_the_next_publish_is_safe(node: Node) -> None:
    declare(node, "q")
    publish_all(node, "q", COUNT)
    node.kill()
    path, at = find_message(node, COUNT - 1)
    with open(path, "r+b") as file:
        file.truncate(at + 30)
    node.boot()
    assert "torn by a crash" in node.output
    assert [delivery.number for delivery in browse(node, "q", take=True)] == list(range(COUNT - 1))
    publish_all(node, "q", 10)
    node.kill()
    node.boot()
    assert [delivery.number for delivery in browse(node, "q")] == list(range(10))


def test_a_segment_without_header_is_set_aside(node: Node) -> None:
    declare(node, "q")
    publish_all(node, "q", COUNT)
    node.kill()
    [path] = node.segments()
    with open(path, "r+b") as file:
        file.write(bytes(segment_header.DATA_AT))
    node.boot()
    assert "the header is damaged; the file is renamed to *.damaged" in node.output
    assert path.with_name(path.name + ".damaged").exists()
    publish_all(node, "q", 10)
    assert ready(node, "q") == 10


def test_messages_of_a_queue_whose_declaration_was_lost_are_kept_apart(node: Node) -> None:
    declare(node, "before", "lost", "after")
    for queue, count in (("before", 10), ("lost", 20), ("after", 30)):
        publish_all(node, queue, count)
    node.kill()
    path = node.data / "metadata" / "metadata.log"
    flip(path, path.read_bytes().find(b"lost") + 1)
    node.boot()
    assert (ready(node, "before"), ready(node, "after")) == (10, 30)
    assert "the declaration of a queue was lost: its 20 messages" in node.output
    found = re.search(r"are in '(\S+)' in vhost '/'", node.output)
    assert found, node.output
    node.end()
    node.boot()
    assert [delivery.number for delivery in browse(node, found[1])] == list(range(20))
    assert (ready(node, "before"), ready(node, "after")) == (10, 30)
    declare(node, "lost")
    assert ready(node, "lost") == 0


def test_a_node_whose_snapshot_is_damaged_refuses_to_begin_anew(node: Node) -> None:
    declare(node, "q")
    publish_all(node, "q", 10)
    node.end()
    node.boot()
    node.end()
    path = node.data / "metadata" / "metadata.log"
    content = path.read_bytes()
    flip(path, journal_records.DATA_AT + 40)
    code, said = node.another()
    assert code == 1
    assert re.search(r"cannot start: the snapshot in \S+ is damaged", said), said
    path.write_bytes(content)
    node.boot()
    assert ready(node, "q") == 10


def test_two_nodes_cannot_use_one_directory(node: Node) -> None:
    declare(node, "q")
    code, said = node.another()
    assert code == EXIT_UNAVAILABLE
    assert f"is in use by process {node.process_id}" in said
    assert len(said.splitlines()) == 1, "one sentence that says what to do"
    node.kill()
    node.boot()
    assert ready(node, "q") == 0
