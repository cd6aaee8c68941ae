"""HTTP clients that send half a request, or never read: the API answers the others."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from mirrormq.config.settings import Address
from mirrormq.runtime.http_admission import (
    CONNECTIONS_MAX,
    CONNECTIONS_PER_ADDRESS_MAX,
    HEAD_TIMEOUT_S,
    HttpAdmission,
)
from mirrormq.runtime.http_connection import OUTPUT_BYTES_MAX
from mirrormq.runtime.http_server import HttpServer
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.conftest import managed
from tests.management.http import Client
from tests.waiting import until

LOGIN = "Authorization: Basic " + base64.b64encode(b"guest:guest").decode()
HALF = b"GET /api/whoami HTTP/1.1\r\nHost: x\r\n"
NO_BODY = f"PUT /api/queues/%2F/slow HTTP/1.1\r\nHost: x\r\n{LOGIN}\r\nContent-Length: 100\r\n\r\n".encode()
OPEN_NO_BODY = (
    b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 100\r\n\r\n"
)
WHOLE = f"GET /api/whoami HTTP/1.1\r\nHost: x\r\n{LOGIN}\r\n\r\n".encode()
MARGIN_S = 30.0
"""The machine may be busy; a server without timeouts keeps a connection for ever."""


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed() as broker:
        yield broker


@contextmanager
def crowd(port: int, data: bytes, count: int, addresses: int = 1) -> Iterator[list[socket.socket]]:
    """Open this many connections and send these bytes on each."""
    with ExitStack() as stack:
        links = []
        for number in range(count):
            source = (f"127.0.1.{1 + number % addresses}", 0)
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30, source))
            link.sendall(data)
            links.append(link)
        yield links


def read_all(link: socket.socket) -> bytes:
    """Everything until the server closes."""
    link.settimeout(HEAD_TIMEOUT_S + MARGIN_S)
    received = b""
    try:
        while piece := link.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("data", [HALF, NO_BODY, OPEN_NO_BODY], ids=["head", "body", "body without login"])
@pytest.mark.parametrize("addresses", [1, 50])
def test_half_sent_requests_lock_no_client_out(node: MirrorMQ, data: bytes, addresses: int) -> None:
    with crowd(node.management_port, data, CONNECTIONS_MAX + 20, addresses) as links:
        began_s = time.monotonic()
        for path in ("overview", "health/checks/alarms", "//metrics"):
            assert Client(node.management_port).request("GET", path).status == 200
        assert time.monotonic() - began_s < HEAD_TIMEOUT_S, "answered before the others are dropped"
        assert b"408 Request Timeout" in read_all(links[-1])


@pytest.mark.parametrize("data", [HALF, NO_BODY], ids=["head", "body"])
def test_a_late_client_gets_408_after_five_seconds(node: MirrorMQ, data: bytes) -> None:
    with crowd(node.management_port, data, 1) as (link,):
        began_s = time.monotonic()
        assert read_all(link).startswith(b"HTTP/1.1 408 Request Timeout")
        assert HEAD_TIMEOUT_S - 0.5 < time.monotonic() - began_s < HEAD_TIMEOUT_S + MARGIN_S


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_rabbitmq_answers_a_late_client_the_same(node: MirrorMQ, rabbitmq: RabbitMQ) -> None:
    heads = []
    for port in (node.management_port, rabbitmq.management_port):
        with crowd(port, HALF, 1) as (link,):
            heads.append(read_all(link).partition(b"\r\n")[0])
    assert heads[0] == heads[1]


@pytest.mark.parametrize("data", [HALF, NO_BODY], ids=["head", "body"])
def test_single_bytes_do_not_prolong_a_request(node: MirrorMQ, data: bytes) -> None:
    with crowd(node.management_port, data, 1) as (link,):
        deadline_s = time.monotonic() + HEAD_TIMEOUT_S + MARGIN_S
        link.settimeout(0.2)
        while time.monotonic() < deadline_s:
            try:
                link.sendall(b" ")
                if link.recv(65536):
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    raise AssertionError("a byte now and then keeps the connection")


def test_a_slow_body_that_makes_progress_is_taken(node: MirrorMQ) -> None:
    body = b'{"durable": true}' + b" " * 40_000
    head = f"PUT /api/queues/%2F/slow HTTP/1.1\r\nHost: x\r\n{LOGIN}\r\nContent-Type: application/json\r\n"
    with crowd(node.management_port, head.encode(), 1) as (link,):
        link.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 5_000):
            link.sendall(body[at : at + 5_000])
            time.sleep(0.9)
        assert link.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_a_whole_request_in_single_bytes_is_answered(node: MirrorMQ) -> None:
    with crowd(node.management_port, b"", 1) as (link,):
        for byte in WHOLE:
            link.sendall(bytes([byte]))
        assert link.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_requests_that_come_ahead_are_answered_in_order(node: MirrorMQ) -> None:
    other = WHOLE.replace(b"GET", b"HEAD")
    with crowd(
        node.management_port, WHOLE + other + WHOLE.replace(b"Host", b"Connection: close\r\nHost"), 1
    ) as (link,):
        assert read_all(link).count(b"HTTP/1.1 200 OK") == 3


def test_a_client_that_never_reads_costs_bounded_memory(node: MirrorMQ) -> None:
    """Each answer is larger than its request: without a bound, output piles up."""
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    answer_bytes = len(Client(node.management_port).request("GET", "//metrics").body)
    with crowd(node.management_port, b"", 1) as (link,):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(2.0)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 * 1024 * 1024:
                sent += link.send(request * 100)
        assert sent // len(request) * answer_bytes > 20 * OUTPUT_BYTES_MAX
        assert Client(node.management_port).get("whoami")


def test_aborted_sockets_leave_no_line_in_the_log(node: MirrorMQ) -> None:
    before = len(node.output)
    for data in (HALF, NO_BODY, OPEN_NO_BODY, WHOLE, WHOLE + HALF, NO_BODY + b"{"):
        with crowd(node.management_port, data, 80, 8) as links:
            for link in links:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    until(lambda: Client(node.management_port).request("GET", "whoami").status == 200)
    assert node.output[before:] == ""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_length_and_encoding_together_are_refused(node: MirrorMQ, version: str) -> None:
    """Two servers in a row may take one of them each, and see different requests."""
    data = (
        f"PUT /api/queues/%2F/smuggled HTTP/{version}\r\nHost: x\r\n{LOGIN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\n{}\r\n0\r\n\r\n"
    )
    with crowd(node.management_port, data.encode(), 1) as (link,):
        assert read_all(link).startswith(b"HTTP/1.1 400 Bad Request")
    assert Client(node.management_port).request("GET", "queues/%2F/smuggled").status == 404


class Place:
    """A connection as the limits see it."""

    def __init__(self, address: str) -> None:
        self.address, self.refusal, self.closed = address, 0, False

    def give_way(self) -> None:
        self.closed = True

    stop = close = give_way


def test_the_oldest_half_sent_request_of_the_busiest_address_gives_way() -> None:
    admission = HttpAdmission()
    mine = [Place("192.0.2.1") for _ in range(CONNECTIONS_PER_ADDRESS_MAX)]
    others = [Place(f"192.0.2.{2 + number}") for number in range(CONNECTIONS_MAX - len(mine))]
    for place in [*others, *mine]:
        assert admission.admit(place) and not place.refusal
    admission.waits(mine[0], False)
    assert admission.admit(late := Place("198.51.100.1")) and not late.refusal
    assert [place for place in [*others, *mine] if place.closed] == [mine[1]]


async def answer_monitoring_only(scope: Any, receive: Any, send: Any) -> None:
    """An application whose other requests take for ever."""
    if not scope["path"].startswith("/metrics"):
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize(("addresses", "status"), [(1, b"429"), (50, b"503")])
async def test_monitoring_is_answered_when_every_place_is_busy(addresses: int, status: bytes) -> None:
    server, port = HttpServer(answer_monitoring_only, pytest.fail), free_port()
    await server.listen(Address("127.0.0.1", port), None, "test")
    busy = b"GET /api/overview HTTP/1.1\r\nHost: x\r\n\r\n"

    def attack() -> tuple[bytes, bytes]:
        most = CONNECTIONS_PER_ADDRESS_MAX if addresses == 1 else CONNECTIONS_MAX
        with crowd(port, busy, most, addresses):
            until(lambda: len(server.admission.connections) == most)
            until(lambda: server.requests == most)
            with (
                crowd(port, busy, 1) as (one_more,),
                crowd(port, busy.replace(b"api/overview", b"metrics"), 1) as (monitoring,),
            ):
                return one_more.recv(12)[-3:], monitoring.recv(12)[-3:]

    assert await asyncio.to_thread(attack) == (status, b"200")
    await server.stop()


def test_the_connections_of_one_address_are_bounded(node: MirrorMQ) -> None:
    """Viewers hold their places for ever; half-sent requests fill the others of the address."""
    stream = f"GET /api/mirrormq/live HTTP/1.1\r\nHost: x\r\n{LOGIN}\r\n\r\n".encode()
    with crowd(node.management_port, stream, 100) as viewers:
        for link in viewers:
            assert link.recv(12) == b"HTTP/1.1 200"
        with crowd(node.management_port, HALF, CONNECTIONS_PER_ADDRESS_MAX) as (first, *_):
            assert b"408" in read_all(first)
            with crowd(node.management_port, WHOLE, 16) as links:
                assert all(link.recv(12) == b"HTTP/1.1 200" for link in links)
