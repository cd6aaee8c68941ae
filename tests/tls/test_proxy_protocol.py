"""The PROXY protocol: a balancer's header in front of everything, in both versions, however it is cut."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pika
import pytest

from mirrormq.connections.proxy_protocol import (
    SIGNATURE,
    Ends,
    Incomplete,
    ProxyHeaderInvalid,
    read_proxy_header,
)
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import accepts, free_port
from tests.hostile.raw import Ended, RawClient
from tests.needs import not_installed
from tests.tls.certificates import Authority, Pair, client_context
from tests.tls.conftest import configuration
from tests.waiting import until


def binary(command: int, family: int, addresses: bytes, more: bytes = b"") -> bytes:
    payload = addresses + more
    return SIGNATURE + bytes((0x20 | command, family)) + struct.pack(">H", len(payload)) + payload


IPV4 = socket.inet_aton("203.0.113.7") + socket.inet_aton("192.0.2.1") + struct.pack(">HH", 4321, 5672)
IPV6 = bytes.fromhex("20010db8" + "00" * 11 + "01" + "20010db8" + "00" * 11 + "02") + struct.pack(
    ">HH", 4321, 5672
)
ENDS4 = Ends("203.0.113.7", 4321, "192.0.2.1", 5672)
ENDS6 = Ends("2001:db8::1", 4321, "2001:db8::2", 5672)

GOOD: dict[str, tuple[bytes, Ends | None]] = {
    "line, IPv4": (b"PROXY TCP4 203.0.113.7 192.0.2.1 4321 5672\r\n", ENDS4),
    "line, IPv6": (b"PROXY TCP6 2001:db8::1 2001:db8::2 4321 5672\r\n", ENDS6),
    "line, unknown": (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None),
    "binary, IPv4": (binary(1, 0x11, IPV4), ENDS4),
    "binary, IPv6": (binary(1, 0x21, IPV6), ENDS6),
    "binary with more": (binary(1, 0x11, IPV4, b"\x03\x00\x04abcd" * 20), ENDS4),
    "binary, local": (binary(0, 0, b""), None),
    "binary, Unix": (binary(1, 0x31, bytes(216)), None),
}

BAD = [
    PROTOCOL_HEADER,
    b"PROXY TCP4 203.0.113.7 192.0.2.1 4321\r\n",
    b"PROXY TCP4 999.0.113.7 192.0.2.1 4321 5672\r\n",
    b"PROXY TCP4 2001:db8::1 2001:db8::2 4321 5672\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 70000 5672\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 -1 5672\r\n",
    b"PROXY UDP4 203.0.113.7 192.0.2.1 4321 5672\r\n",
    b"PROXY " + b"x" * 200,
    SIGNATURE + b"\x31\x11\x00\x0c" + IPV4,
    SIGNATURE + b"\x22\x11\x00\x0c" + IPV4,
    binary(1, 0x11, IPV4[:8]),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_header_is_read_from_any_number_of_pieces(name: str) -> None:
    header, ends = GOOD[name]
    for at in range(len(header)):
        with pytest.raises(Incomplete) as incomplete:
            read_proxy_header(header[:at])
        assert 0 < incomplete.value.missing <= len(header) - at
    assert read_proxy_header(header) == (ends, b"")
    assert read_proxy_header(header + PROTOCOL_HEADER) == (ends, PROTOCOL_HEADER)


@pytest.mark.parametrize("header", BAD)
def test_a_wrong_header_is_refused(header: bytes) -> None:
    with pytest.raises(ProxyHeaderInvalid):
        read_proxy_header(header)


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with MirrorMQ(configuration="proxy_protocol = true\nhandshake_timeout = 5000\n") as started:
        started.control("add_user", "remote", "secret")
        started.control("set_permissions", "remote", ".*", ".*", ".*")
        yield started


@pytest.mark.parametrize("name", ["line, IPv4", "line, IPv6", "binary, IPv4", "binary, IPv6"])
def test_the_client_behind_the_balancer_is_shown(node: MirrorMQ, name: str) -> None:
    header, ends = GOOD[name]
    assert ends is not None
    client = RawClient(node.amqp_port)
    for at in range(len(header)):
        client.send(header[at : at + 1])
    client.log_in(user="remote", password="secret")
    shown = node.control("list_connections", "peer_host", "peer_port", "host", "port")
    assert list(map(str, ends)) in [line.split("\t") for line in shown.splitlines()]
    bracketed = [f"[{host}]" if ":" in host else host for host in (ends.host, ends.server_host)]
    name_shown = f"{bracketed[0]}:4321 -> {bracketed[1]}:5672"
    assert name_shown in node.control("list_connections", "name").splitlines()
    client.close()


def test_header_and_handshake_in_one_piece(node: MirrorMQ) -> None:
    client = RawClient(node.amqp_port)
    client.send(GOOD["binary, IPv4"][0] + PROTOCOL_HEADER)
    client.expect("ConnectionStart")
    client.close()


def test_the_balancer_may_speak_for_itself(node: MirrorMQ) -> None:
    """Health checks do; RabbitMQ 3.10 drops them."""
    for name in ("line, unknown", "binary, local"):
        client = RawClient(node.amqp_port)
        client.send(GOOD[name][0])
        client.log_in().close()


def test_a_client_without_a_header_is_dropped(node: MirrorMQ) -> None:
    for header in (PROTOCOL_HEADER, b"PROXY TCP4 999.0.113.7 192.0.2.1 4321 5672\r\n"):
        client = RawClient(node.amqp_port)
        client.send(header)
        assert client.until_closed() < 1.5
        client.close()


def test_a_header_that_never_comes_is_waited_for_only_so_long(node: MirrorMQ) -> None:
    beginnings = (b"", b"PROXY TCP4 203", SIGNATURE + b"\x21\x11\xff\xff")
    clients = [RawClient(node.amqp_port) for _ in beginnings]
    for client, beginning in zip(clients, beginnings, strict=True):
        client.send(beginning)
    with ThreadPoolExecutor(len(clients)) as pool:
        waited_s = list(pool.map(RawClient.until_closed, clients))
    assert all(1.0 < one_s < 20.0 for one_s in waited_s), waited_s
    for client in clients:
        client.close()


def test_loopback_users_may_not_come_from_afar(node: MirrorMQ) -> None:
    """The address that counts is the client's, not the balancer's."""
    client = RawClient(node.amqp_port)
    client.send(GOOD["line, IPv4"][0])
    with pytest.raises(AssertionError, match="403"):
        client.log_in(user="guest", password="guest")
    client.close()
    local = RawClient(node.amqp_port)
    local.send(b"PROXY TCP4 127.0.0.1 127.0.0.1 4321 5672\r\n")
    local.log_in(user="guest", password="guest").close()


def test_a_header_in_front_of_tls(authority: Authority, server: Pair, client: Pair) -> None:
    port = free_port()
    text = configuration(port, authority, server, proxy_protocol="true", ssl_options__verify="verify_peer")
    with MirrorMQ(configuration=text + "handshake_timeout = 5000\n") as node:
        node.control("await_startup")
        node.control("add_user", "remote", "secret")
        node.control("set_permissions", "remote", ".*", ".*", ".*")
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        plain.sendall(GOOD["binary, IPv4"][0])
        wrapped = client_context(authority, client).wrap_socket(plain, server_hostname="localhost")
        RawClient(0, sock=wrapped).log_in(user="remote", password="secret")
        assert "203.0.113.7\t4321\ttrue" in node.control("list_connections", "peer_host", "peer_port", "ssl")
        with pytest.raises((ssl.SSLError, ConnectionError, Ended)):
            released = socket.create_connection(("127.0.0.1", port), timeout=30)
            client_context(authority).wrap_socket(released, server_hostname="localhost")
        wrapped.close()


HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen one
    bind 127.0.0.1:{one}
    server broker 127.0.0.1:{broker} send-proxy
listen two
    bind 127.0.0.1:{two}
    server broker 127.0.0.1:{broker} send-proxy-v2
"""


@pytest.fixture
def haproxy(node: MirrorMQ, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A real one, in front of the node."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip(not_installed("haproxy"))
    ports = free_port(), free_port()
    (tmp_path / "haproxy.cfg").write_text(HAPROXY.format(one=ports[0], two=ports[1], broker=node.amqp_port))
    process = subprocess.Popen(
        [program, "-db", "-f", str(tmp_path / "haproxy.cfg")], stdin=subprocess.DEVNULL
    )
    until(lambda: all(map(accepts, ports)), "haproxy did not start")
    yield ports
    process.terminate()
    process.wait()


def test_behind_a_real_haproxy(node: MirrorMQ, haproxy: tuple[int, int]) -> None:
    for port in haproxy:
        parameters = pika.ConnectionParameters("127.0.0.1", port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("proxied", exclusive=True)
            channel.basic_publish("", "proxied", b"through haproxy")
            assert channel.basic_get("proxied", auto_ack=True)[2] == b"through haproxy"
            shown = node.control("list_connections", "host", "port").splitlines()
            assert f"127.0.0.1\t{port}" in shown, "the address that the client connected to is haproxy's"
