"""Passwords are checked one after the other; nobody waits for a check that nobody wants any more."""

from __future__ import annotations

import asyncio

from mirrormq.auth.passwords import SCRYPT, Verdict, hash_password, salt_bytes
from mirrormq.metadata.records import User
from mirrormq.runtime.passwords import PasswordChecker

USER = User("u", password_hash=hash_password(b"right", bytes(salt_bytes(SCRYPT))), hashing_algorithm=SCRYPT)


async def verdicts(*asked: tuple[bytes, bool]) -> list[tuple[bytes, bool]]:
    """What comes of passwords, each with whether its client waits for the answer."""
    checker = PasswordChecker(asyncio.get_running_loop(), lambda: None)
    found: list[tuple[bytes, bool]] = []
    done = asyncio.Event()

    def ask(password: bytes, waits: bool) -> None:
        def told(right: bool) -> None:
            found.append((password, right))
            if len(found) == sum(waiting for _, waiting in asked):
                done.set()

        checker.verify(password, USER, Verdict(told, lambda: waits))

    for password, waits in asked:
        ask(password, waits)
    await asyncio.wait_for(done.wait(), 60)
    return found


async def test_every_client_that_waits_is_told() -> None:
    found = await verdicts((b"wrong", True), (b"right", True), (b"worse", True))
    assert sorted(found) == [(b"right", True), (b"worse", False), (b"wrong", False)]


async def test_a_guess_whose_client_has_gone_is_not_checked() -> None:
    """Forty of them would keep a processor busy for seconds, and who logs in next would wait for that."""
    found = await verdicts(*[(b"guess %d" % number, False) for number in range(40)], (b"right", True))
    assert found == [(b"right", True)]
