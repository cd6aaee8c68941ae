"""`mirrormq migrate run` while a cluster, the proxy or the disk fails: it says so, and tries again."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mirrormq.auth.client_peer import Peer
from mirrormq.connections.connection import Connection
from mirrormq.migration.migration_records import Plan, Proxy, ProxyBackend, Status
from mirrormq.migration.phases import Phase, Step
from mirrormq.migration.proxy_steps import ProxyReplyError
from mirrormq.migration_io.broker_api import BrokerApi, Unreachable
from mirrormq.migration_io.haproxy_socket import HaproxySocket
from mirrormq.migration_io.migration_directory import MigrationDirectory
from mirrormq.migration_io.migration_run import MigrationRun
from mirrormq.migration_io.queue_counts import Counts, count
from mirrormq.wire import methods
from tests.brokers.ports import free_port
from tests.harness import Node

PATIENCE_S = 20.0


@contextmanager
def serving(serve: Callable[[socket.socket], None], address: str | tuple[str, int]) -> Iterator[int]:
    """Accept connections one after the other; return the port."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client, suppress(OSError):
                        serve(client)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield 0 if isinstance(address, str) else listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def broker(node: Node, breaks_at: bytes) -> Callable[[socket.socket], None]:
    """Let a node serve clients; break the connection when it receives these octets."""

    def serve(client: socket.socket) -> None:
        connection = Connection(node.broker, Peer("127.0.0.1", 1))
        while data := client.recv(65_536):
            if breaks_at in data:
                return
            connection.receive(data)
            node.turn()
            client.sendall(b"".join(connection.take_output()))
            node.broker.writing.pop(connection, None)

    return serve


def test_counting_goes_on_after_a_missing_queue_and_names_a_broken_connection() -> None:
    node = Node()
    client = node.connect()
    for name in ("first", "breaking"):
        client.call(methods.encode_queue_declare(name))
    client.publish("first", b"1", b"2")
    with serving(broker(node, b"breaking"), ("127.0.0.1", 0)) as port:
        uris = [f"amqp://guest:guest@127.0.0.1:{port}"]
        queues = [("/", "first"), ("/", "missing")]
        assert count("old", uris, queues) == {("/", "first"): Counts(2, 0)}
        with pytest.raises(Unreachable, match="the queues of the old cluster cannot be counted: "):
            count("old", uris, [("/", "first"), ("/", "breaking")])


def replying(content: bytes) -> Callable[[socket.socket], None]:
    def serve(client: socket.socket) -> None:
        client.recv(65_536)
        client.sendall(content)

    return serve


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "status 200, and no JSON: is it the HTTP API?"),
        (b"HTTP/1.0 503 Starting\r\n\r\n{}", "status 503"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{", "its reply is cut"),
        (b"", "Remote end closed connection without response"),
    ],
)
def test_a_node_without_a_proper_reply_counts_as_one_without_any(reply: bytes, reason: str) -> None:
    with serving(replying(reply), ("127.0.0.1", 0)) as port, pytest.raises(Unreachable) as caught:
        BrokerApi("old", [f"http://127.0.0.1:{port}"]).get("overview")
    assert str(caught.value).startswith(f"no node of the old cluster replies: 127.0.0.1:{port} ({reason}")


def test_another_node_replies_instead() -> None:
    with (
        serving(replying(b"HTTP/1.0 502 Bad\r\n\r\n"), ("127.0.0.1", 0)) as first,
        serving(replying(b'HTTP/1.0 200 OK\r\n\r\n{"a": 1}'), ("127.0.0.1", 0)) as second,
    ):
        api = BrokerApi("old", [f"http://127.0.0.1:{first}", f"http://127.0.0.1:{second}"])
        assert api.get("overview") == {"a": 1}


def test_a_proxy_that_replies_with_something_else(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with (
        serving(replying(b"Permission denied\n"), path),
        pytest.raises(ProxyReplyError, match="level admin"),
    ):
        HaproxySocket(path).servers()


def planned(directory: Path, old: str, new: str, proxy: str = "") -> MigrationDirectory:
    made = MigrationDirectory(directory)
    backend = ProxyBackend("amqp", ["blue"], ["green"])
    made.create(
        Plan(
            "1", "now", [old], [f"amqp://127.0.0.1:{free_port()}"], [new],
            [f"amqp://127.0.0.1:{free_port()}"], [], [], [], [],
            Proxy(proxy, backend, backend) if proxy else None,
        )
    )  # fmt: skip
    return made


async def first_status(files: MigrationDirectory, wanted: Callable[[Status], bool]) -> Status:
    """Run a migration until its status is as wanted; it must not end before."""
    found: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    def report(status: Status) -> None:
        if wanted(status) and not found.done():
            found.set_result(status)

    running = asyncio.create_task(MigrationRun(files, files.plan(), report).run())
    await asyncio.wait((running, found), timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running.exception()
    assert found.done(), "no such status"
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return found.result()


NO_DEFINITIONS = replying(b"HTTP/1.0 200 OK\r\n\r\n{}")


def test_clusters_that_do_not_reply_are_tried_again_from_the_first_moment(tmp_path: Path) -> None:
    port = free_port()
    files = planned(tmp_path, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}")
    status = asyncio.run(first_status(files, lambda status: bool(status.error)))
    assert status.error.startswith(f"no node of the new cluster replies: 127.0.0.1:{port}")
    assert (status.phase, status.fulfilled) == (Phase.PLANNED, False)
    with serving(NO_DEFINITIONS, ("127.0.0.1", port)):
        status = asyncio.run(first_status(files, lambda status: status.phase is not Phase.PLANNED))
    assert (status.phase, status.error) == (Phase.FOLLOWING, "")


def test_a_proxy_that_fails_is_asked_again(tmp_path: Path) -> None:
    proxy = str(tmp_path / "socket")
    with serving(NO_DEFINITIONS, ("127.0.0.1", 0)) as port:
        files = planned(tmp_path / "m", f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}", proxy)
        with serving(replying(b"Permission denied\n"), proxy):
            status = asyncio.run(first_status(files, lambda status: bool(status.error)))
    assert "HAProxy did not reply to 'show servers state'" in status.error
    assert not status.fulfilled


def test_a_status_that_cannot_be_written_is_still_reported(tmp_path: Path) -> None:
    with serving(NO_DEFINITIONS, ("127.0.0.1", 0)) as port:
        files = planned(tmp_path, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}")
        files.advance(Step.RUN)
        (tmp_path / "status.json").mkdir()
        status = asyncio.run(first_status(files, lambda status: bool(status.error)))
    assert f"{tmp_path / 'status.json'} cannot be written (Is a directory)" in status.error
    assert not status.fulfilled
