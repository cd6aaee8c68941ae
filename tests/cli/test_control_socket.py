"""Control socket: every input gets a reply or a closed connection, and the node survives."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from mirrormq import limits
from mirrormq.control import control_client
from mirrormq.control.control_protocol import ControlError, Request, frame, socket_path
from mirrormq.control.node_interface import NodeShell
from mirrormq.errors import ConfigurationError
from mirrormq.runtime.control_server import ControlServer
from tests.cli.support import NODE_NAME, ControlledNode, served


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ControlledNode]:
    with served(tmp_path) as running:
        yield running


def send(directory: Path, data: bytes) -> bytes:
    """Return everything that the node replies to these bytes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(str(socket_path(directory, NODE_NAME)))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def test_half_a_request_gets_no_answer_and_delays_no_other_client(
    node: ControlledNode, tmp_path: Path
) -> None:
    assert send(tmp_path, b"") == b""
    assert send(tmp_path, b"\0\0") == b""
    assert send(tmp_path, b"\0\0\0\x09{") == b""
    assert control_client.call(tmp_path, NODE_NAME, Request("ping"), 10)["serving"] is True


def test_a_length_beyond_the_limit_is_not_waited_for(node: ControlledNode, tmp_path: Path) -> None:
    assert send(tmp_path, (limits.CONTROL_REQUEST_BYTES_MAX + 1).to_bytes(4, "big")) == b""


@pytest.mark.parametrize(
    "document", [b"nonsense", b"[]", b"{}", b'{"verb": 5}', b'{"verb": "ping", "arguments": 1}']
)
def test_a_document_that_is_no_request_is_answered(
    node: ControlledNode, tmp_path: Path, document: bytes
) -> None:
    reply = json.loads(send(tmp_path, len(document).to_bytes(4, "big") + document)[4:])
    assert reply["ok"] is False
    assert reply["exit_code"] == 64
    assert "cannot be read" in reply["error"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request("fly"), "does not know the command 'fly'"),
        (Request("add_user"), "are invalid"),
        (Request("set_permissions", ["guest"]), "are invalid"),
        (Request("close_all_connections", ["bye"], {"limit": "many"}), "are invalid"),
        (Request("set_policy", ["p", "^q", '{"max-length": 1}'], {"priority": "high"}), "Validation failed"),
        (Request("import_definitions", ["{"]), "JSON decoding error"),
    ],
)
def test_a_request_that_cannot_be_done_says_why(
    node: ControlledNode, tmp_path: Path, request_: Request, words: str
) -> None:
    with pytest.raises(ControlError, match=words):
        control_client.call(tmp_path, NODE_NAME, request_, 10)


def test_names_that_are_not_utf_8_are_shown_with_a_replacement() -> None:
    raw = b"q\xff".decode("utf-8", "surrogateescape")
    assert json.loads(frame({"name": [raw, {raw: 1}]})[4:]) == {"name": ["q\ufffd", {"q\ufffd": 1}]}


def test_a_socket_left_by_a_killed_node_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(socket_path(tmp_path, NODE_NAME)))
    with served(tmp_path):
        assert control_client.answers(tmp_path, NODE_NAME)
    assert not socket_path(tmp_path, NODE_NAME).exists()


def test_a_world_writable_directory_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ConfigurationError, match="MIRRORMQ_RUNTIME_DIR"):
        asyncio.run(ControlServer(cast(NodeShell, ControlledNode(shared))).start())


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="longer than 107 bytes"):
        socket_path(tmp_path / ("d" * 100), NODE_NAME)
