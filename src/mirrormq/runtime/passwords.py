"""Checks passwords in threads, and remembers right ones, so that good hashes do not cost connections.

A guess whose client has gone by the time of its turn is not checked: whoever comes next would wait for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mirrormq.auth.passwords import Verdict, verify_password
from mirrormq.metadata.records import User

REMEMBERED_MAX = 4096
"""Right answers that are remembered, by a keyed digest of the password and the stored hash."""

CHECKS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Guesses that are checked at the same time. Each keeps a processor busy for a tenth of a second: the loop
has the others, and whoever needs a thread for something else does not wait behind a hundred guesses."""


class PasswordChecker:
    """Asks `auth.passwords` off the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None]) -> None:
        self._loop = loop
        self._after = after
        self._threads = ThreadPoolExecutor(CHECKS_AT_ONCE, "passwords")
        self._key = os.urandom(32)
        self._remembered: set[bytes] = set()
        self._running: set[asyncio.Task[None]] = set()

    def verify(self, password: bytes, user: User, decided: Verdict) -> None:
        """Call `decided` with the verdict, now if it is known, else from a later turn; never if nobody wants
        to know it any more."""
        fingerprint = hashlib.blake2b(
            password + b"\0" + user.password_hash.encode(), key=self._key, digest_size=32
        ).digest()
        if fingerprint in self._remembered:
            decided(True)
            return
        task = self._loop.create_task(self._check(password, user, fingerprint, decided))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _check(self, password: bytes, user: User, fingerprint: bytes, decided: Verdict) -> None:
        def checked() -> bool | None:
            if not decided.wanted():
                return None
            return verify_password(password, user.password_hash, user.hashing_algorithm)

        right = await self._loop.run_in_executor(self._threads, checked)
        if right is None:
            return
        if right:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered.add(fingerprint)
        decided(right)
        self._after()
