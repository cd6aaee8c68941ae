"""Password checks: bounded per address and user, fair between addresses, dropped with their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from mirrormq.auth import password_queue
from mirrormq.auth.client_peer import address_block
from mirrormq.auth.password_queue import PENDING_MAX, PENDING_PER_ADDRESS_MAX, PENDING_PER_USER_MAX
from mirrormq.auth.passwords import SCRYPT, PasswordCheck, hash_password, salt_bytes, verify_login
from mirrormq.metadata.records import User
from mirrormq.runtime import password_checker
from mirrormq.runtime.password_checker import PasswordChecker

USER = User("u", password_hash=hash_password(b"right", bytes(salt_bytes(SCRYPT))), hashing_algorithm=SCRYPT)
ATTACKER, VICTIM = "192.0.2.1", "192.0.2.2"
DEADLINE_S = 60


class Client:
    """A client that waits for the result of one check."""

    def __init__(self, password: bytes, host: str = VICTIM, user: User = USER) -> None:
        self.result: bool | str = "waiting"
        self.here = True
        self.check = PasswordCheck(password, user, host, self.decided, self.overloaded, lambda: self.here)

    def decided(self, right: bool) -> None:
        self.result = right

    def overloaded(self) -> None:
        self.result = "overloaded"


async def results(*clients: Client, checks_at_once: int = 1) -> list[bool | str]:
    """Check all of them at once; return when every client that is there has its result."""
    reported = asyncio.Event()
    checker = PasswordChecker(asyncio.get_running_loop(), reported.set, checks_at_once)
    for client in clients:
        checker.verify(client.check)
    async with asyncio.timeout(DEADLINE_S):
        while any(client.here and client.result == "waiting" for client in clients):
            await reported.wait()
            reported.clear()
    return [client.result for client in clients]


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Passwords in the order in which they are hashed."""
    found: list[bytes] = []

    def recorded(password: bytes, stored: str, algorithm: str) -> bool:
        found.append(password)
        return verify_login(password, stored, algorithm)

    monkeypatch.setattr(password_checker, "verify_login", recorded)
    yield found


async def test_every_waiting_client_is_answered() -> None:
    assert await results(Client(b"wrong"), Client(b"right"), Client(b"worse")) == [False, True, False]


async def test_a_guess_whose_client_has_gone_is_not_checked(hashed: list[bytes]) -> None:
    """Forty of them would keep a processor busy for seconds, and who logs in next would wait for that."""
    gone = [Client(b"guess %d" % number) for number in range(40)]
    for client in gone:
        client.here = False
    assert (await results(*gone, Client(b"right")))[-1] is True
    assert hashed == [b"right"]


async def test_clients_with_one_password_cost_one_hash(hashed: list[bytes]) -> None:
    assert await results(*[Client(b"right") for _ in range(100)]) == [True] * 100
    assert hashed == [b"right"]


async def test_another_address_waits_for_one_guess_and_not_for_all(hashed: list[bytes]) -> None:
    guesses = [Client(b"guess %d" % number, ATTACKER, User(f"user {number}")) for number in range(20)]
    assert (await results(*guesses, Client(b"right")))[-1] is True
    assert hashed.index(b"right") <= 2


async def test_another_user_of_an_address_waits_for_one_guess_too(hashed: list[bytes]) -> None:
    guesses = [Client(b"guess %d" % number) for number in range(10)]
    assert (await results(*guesses, Client(b"other", user=User("other"))))[-1] is False
    assert hashed.index(b"other") <= 2


async def test_an_address_that_always_has_one_guess_does_not_starve_a_backlog() -> None:
    queue = password_queue.PasswordQueue()
    for number in range(3):
        queue.add(Client(b"%d" % number, VICTIM).check, b"victim %d" % number)
    served = []
    for number in range(6):
        queue.add(Client(b"%d" % number, ATTACKER).check, b"attacker %d" % number)
        job = queue.next()
        assert job is not None
        queue.finished(job)
        served.append(job.address)
    assert served.count(VICTIM) == 3


def overloaded(*clients: Client) -> int:
    """Number of clients that a queue refuses."""
    queue = password_queue.PasswordQueue()
    for number, client in enumerate(clients):
        for refused in queue.add(client.check, b"%d" % number):
            refused.overloaded()
    return sum(client.result == "overloaded" for client in clients)


def guesses(count: int, host: str, names: int) -> list[Client]:
    return [Client(b"%d" % number, host, User(f"u{number % names}")) for number in range(count)]


def test_the_checks_of_one_address_are_bounded() -> None:
    assert overloaded(*guesses(PENDING_PER_ADDRESS_MAX + 10, ATTACKER, 1000)) == 10


def test_the_checks_of_one_user_are_bounded() -> None:
    assert overloaded(*guesses(PENDING_PER_USER_MAX + 10, ATTACKER, 1)) == 10


def test_a_node_bounds_password_checks_and_the_busiest_address_gives_way() -> None:
    per_address = PENDING_MAX // 16
    crowd = [
        Client(b"x", f"192.0.2.{host}", User(f"user {host} {number}"))
        for host in range(16)
        for number in range(per_address)
    ]
    victim = Client(b"right", "198.51.100.1")
    queue = password_queue.PasswordQueue()
    for number, client in enumerate(crowd):
        assert queue.add(client.check, b"%d" % number) == []
    (refused,) = queue.add(victim.check, b"right")
    assert refused is not victim.check and len(queue) == PENDING_MAX


def test_guesses_for_a_user_do_not_lock_that_user_out_at_other_addresses() -> None:
    victim = Client(b"right", VICTIM)
    crowd = [Client(b"x", ATTACKER) for _ in range(PENDING_PER_USER_MAX)]
    queue = password_queue.PasswordQueue()
    for number, client in enumerate(crowd):
        queue.add(client.check, b"%d" % number)
    (refused,) = queue.add(victim.check, b"right")
    assert refused is crowd[-1].check


def test_clients_that_left_make_room() -> None:
    crowd = guesses(PENDING_PER_ADDRESS_MAX, ATTACKER, 1000)
    queue = password_queue.PasswordQueue()
    for number, client in enumerate(crowd):
        queue.add(client.check, b"%d" % number)
        client.here = False
    assert queue.add(Client(b"right", ATTACKER).check, b"right") == []
    assert len(queue) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_an_address_of_ipv6_is_a_network(one: str, other: str, same: bool) -> None:
    assert (address_block(one) == address_block(other)) is same
