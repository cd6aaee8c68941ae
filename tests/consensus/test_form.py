"""Form of the package: it imports nothing else, and all its messages can be encoded."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import mirrormq.consensus
from mirrormq.consensus import Message, decode_message, encode_message
from mirrormq.consensus.log_history import LogHistory, TermRun
from mirrormq.consensus.raft_messages import (
    Append,
    AppendReply,
    Branch,
    ChangeMembers,
    Chunk,
    ChunkReply,
    Command,
    Entry,
    Forward,
    Members,
    Nothing,
    PreVote,
    TimeoutNow,
    Vote,
    VoteReply,
)

ALLOWED = {"__future__", "bisect", "collections", "enum", "msgspec", "typing", "mirrormq"}


def test_nothing_outside_is_imported() -> None:
    for path in Path(mirrormq.consensus.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in ALLOWED, f"{path.name} imports {name}"
                assert not name.startswith("mirrormq") or name.startswith("mirrormq.consensus")


HISTORY = LogHistory((TermRun(1, 2, 3, True),), 9, 8)
PAYLOADS: tuple[Nothing | Command | ChangeMembers | Branch, ...] = (
    Nothing(),
    Command("A", 1 << 62, 0, b"\xff"),
    ChangeMembers(Members(("A",), ("B",))),
    Branch(1, 2, 3, False),
)
ENTRIES = tuple(Entry(number, 2, 3, payload) for number, payload in enumerate(PAYLOADS))


@pytest.mark.parametrize(
    "message",
    [
        PreVote(1, HISTORY),
        Vote(1, HISTORY, True),
        VoteReply(1, True, False, HISTORY),
        Append(1, 2, 3, 4, ENTRIES, 5, HISTORY),
        Append(1, 2, 3, 4, (), 5, None),
        AppendReply(1, False, 2, HISTORY),
        Chunk(1, 2, 3, 4, b"part", HISTORY),
        ChunkReply(1, 2, 3),
        TimeoutNow(1),
        Forward(1, 2, b"data"),
    ],
)
def test_messages_survive_msgpack(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\x63\x01", msgspec.msgpack.encode([3, "x"])])
def test_rubbish_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_message(data)
