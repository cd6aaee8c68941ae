"""Password checks in threads, with a cache of correct passwords.

`auth.password_queue` decides order and limits; this module owns the threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mirrormq.auth.password_queue import PasswordJob, PasswordQueue
from mirrormq.auth.passwords import PasswordCheck, verify_login

REMEMBERED_MAX = 4096
"""Maximum correct passwords in the cache, each as a keyed digest of password and stored hash."""

CHECKS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Passwords hashed at the same time. Each hash occupies one processor; the event loop uses the others."""


class PasswordChecker:
    """Password checker that works off the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, after: Callable[[], None], checks_at_once: int = CHECKS_AT_ONCE
    ) -> None:
        self._loop = loop
        self._after = after
        self._threads = ThreadPoolExecutor(checks_at_once, "passwords")
        self._checks_at_once = checks_at_once
        self._key = os.urandom(32)
        self._remembered: set[bytes] = set()
        self._queue = PasswordQueue()
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def verify(self, check: PasswordCheck) -> None:
        """Call `check.decided`: at once if the password is cached, else after it was hashed. Call
        `check.overloaded` instead if the queue refuses the check, and neither if the client leaves."""
        fingerprint = self._fingerprint(check)
        if fingerprint in self._remembered:
            check.decided(True)
            return
        for refused in self._queue.add(check, fingerprint):
            refused.overloaded()
            self._after()
        if self._workers < self._checks_at_once and len(self._queue):
            self._workers += 1
            task = self._loop.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _fingerprint(self, check: PasswordCheck) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=32)
        # The length prefixes keep name and hash apart: two different pairs never give the same digest input.
        for part in (check.user.name.encode("utf-8", "surrogateescape"), check.user.password_hash.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        digest.update(check.password)
        return digest.digest()

    async def _work(self) -> None:
        """Hash passwords until none is pending."""
        try:
            while (job := self._queue.next()) is not None:
                await self._hash(job)
                right = job.fingerprint in self._remembered
                for check in self._queue.finished(job):
                    check.decided(right)
                self._after()
        finally:
            # Decrement in the same step that found the queue empty: a later check then starts a new worker.
            self._workers -= 1

    async def _hash(self, job: PasswordJob) -> None:
        """Hash one password, unless a client of another address has meanwhile presented the correct one."""
        if job.fingerprint in self._remembered:
            return
        check = job.checks[0]
        stored, algorithm = check.user.password_hash, check.user.hashing_algorithm
        if not await self._loop.run_in_executor(
            self._threads, verify_login, check.password, stored, algorithm
        ):
            return
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered.add(job.fingerprint)
