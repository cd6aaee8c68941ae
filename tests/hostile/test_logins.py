"""Clients without a login that ask for passwords to be hashed: other clients log in as before."""

from __future__ import annotations

import base64
import os
import selectors
import socket
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirrormq.auth.password_queue import PENDING_PER_ADDRESS_MAX
from mirrormq.auth.passwords import SHA256, hash_password, salt_bytes
from mirrormq.wire import methods
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.raw import Ended, RawClient
from tests.management.conftest import managed
from tests.management.http import Client
from tests.waiting import until

ATTACKER = "127.0.0.2"
GUESSES = 450
REQUEST = "GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {}\r\n\r\n"
SHARE = 4
"""A victim waits for less than this part of what all guesses together would take."""


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed() as broker:
        for number in range(8):
            broker.control("add_user", f"victim{number}", "right")
            broker.control("set_user_tags", f"victim{number}", "management")
            broker.control("set_permissions", f"victim{number}", ".*", ".*", ".*")
        yield broker


def cpu_s(node: MirrorMQ) -> float:
    """Processor time that the node has used."""
    fields = Path(f"/proc/{node.process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def hash_s(node: MirrorMQ) -> float:
    """Processor time of one wrong login."""
    before = cpu_s(node)
    for number in range(5):
        assert Client(node.management_port, "nobody", f"{number}").request("GET", "whoami").status == 401
    return (cpu_s(node) - before) / 5


def attack(node: MirrorMQ, user: str, count: int = GUESSES) -> list[socket.socket]:
    """Send wrong logins over HTTP from an address of the attacker's own; read nothing."""
    sockets = []
    for number in range(count):
        link = socket.create_connection(("127.0.0.1", node.management_port), 30, (ATTACKER, 0))
        credentials = f"{user.format(number)}:guess {number}"
        link.sendall(REQUEST.format(base64.b64encode(credentials.encode()).decode()).encode())
        sockets.append(link)
    return sockets


def statuses(sockets: list[socket.socket]) -> Counter[str]:
    """Count the statuses of answers; close the sockets."""
    found: Counter[str] = Counter()
    for link in sockets:
        found[link.recv(65536)[9:12].decode()] += 1
        link.close()
    return found


@contextmanager
def timed_below(limit_s: float) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < limit_s


@pytest.mark.parametrize(
    ("user", "victim"),
    [("victim0", 0), ("nobody {}", 1)],
)
def test_guesses_delay_no_other_address(node: MirrorMQ, hash_s: float, user: str, victim: int) -> None:
    sockets = attack(node, user)
    with timed_below(GUESSES * hash_s / SHARE):
        assert Client(node.management_port, f"victim{victim}", "right").get("whoami")
    with timed_below(GUESSES * hash_s / SHARE):
        RawClient(node.amqp_port).log_in(user=f"victim{victim + 2}", password="right").close()
    found = statuses(sockets)
    assert found.keys() == {"401", "429"}
    assert found["401"] < GUESSES / 2, "some are hashed while the rest arrives, the others are refused"


def test_guesses_delay_no_other_user_of_the_same_address(node: MirrorMQ, hash_s: float) -> None:
    sockets = attack(node, "victim0")
    link = socket.create_connection(("127.0.0.1", node.management_port), 30, (ATTACKER, 0))
    link.sendall(REQUEST.format(base64.b64encode(b"victim4:right").decode()).encode())
    with timed_below(GUESSES * hash_s / SHARE):
        assert b" 200 " in link.recv(65536)[:20]
    statuses(sockets)


def test_passwords_of_http_clients_that_left_are_not_hashed(node: MirrorMQ, hash_s: float) -> None:
    before_s = cpu_s(node)
    for link in attack(node, "nobody {}", PENDING_PER_ADDRESS_MAX):
        link.close()
    assert Client(node.management_port, "victim5", "right").get("whoami")
    settled(node)
    assert cpu_s(node) - before_s < PENDING_PER_ADDRESS_MAX * hash_s / 2


def settled(node: MirrorMQ) -> None:
    """Wait until the node does next to nothing."""

    def idle() -> bool:
        before_s = cpu_s(node)
        time.sleep(0.5)
        return cpu_s(node) - before_s < 0.1

    until(idle)


def amqp_guess(node: MirrorMQ, number: int, user: str = "nobody") -> RawClient:
    sock = socket.create_connection(("127.0.0.1", node.amqp_port), 30, (ATTACKER, 0))
    client = RawClient(node.amqp_port, sock=sock)
    client.send(PROTOCOL_HEADER)
    client.expect("ConnectionStart")
    credentials = f"\0{user} {number}\0guess".encode()
    client.method(0, methods.encode_connection_start_ok({}, "PLAIN", credentials, "en_US"))
    return client


def test_passwords_of_amqp_clients_that_left_are_not_hashed(node: MirrorMQ, hash_s: float) -> None:
    before_s = cpu_s(node)
    clients = [amqp_guess(node, number) for number in range(PENDING_PER_ADDRESS_MAX)]
    for client in clients:
        client.close()
    RawClient(node.amqp_port).log_in(user="victim6", password="right").close()
    settled(node)
    assert cpu_s(node) - before_s < PENDING_PER_ADDRESS_MAX * hash_s / 2


def test_amqp_clients_beyond_the_bound_are_closed(node: MirrorMQ) -> None:
    clients = [amqp_guess(node, number, "crowd") for number in range(PENDING_PER_ADDRESS_MAX * 2)]
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ)
    assert selector.select(1.0), "one is closed at once; a wrong password is silent for three seconds"
    with pytest.raises(Ended):
        clients[-1].answer()
    assert "too many logins of this address or user are waiting" in node.output
    for client in clients:
        client.close()


def test_the_time_of_a_refusal_does_not_tell_whether_a_user_exists(node: MirrorMQ, hash_s: float) -> None:
    settled(node)
    imported = hash_password(b"right", bytes(salt_bytes(SHA256)), SHA256)
    administrator = Client(node.management_port)
    body = {"password_hash": imported, "hashing_algorithm": SHA256, "tags": "management"}
    assert administrator.put("users/imported", body).status == 201
    assert administrator.put("users/passwordless", {"password_hash": "", "tags": "management"}).status == 201
    spent: dict[str, list[float]] = {}
    for number in range(5):
        for user in ("victim7", "nobody", "imported", "passwordless"):
            before_s = cpu_s(node)
            client = Client(node.management_port, user, f"wrong {number}")
            assert client.request("GET", "whoami").status == 401
            spent.setdefault(user, []).append(cpu_s(node) - before_s)
    medians = {user: statistics.median(values) for user, values in spent.items()}
    assert min(medians.values()) > max(medians.values()) / 2, medians
    assert Client(node.management_port, "imported", "right").get("whoami")
