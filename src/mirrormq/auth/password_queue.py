"""Pending password checks of one node: bounded, and fair between addresses.

A check costs a processor 40 to 100 ms: a client without a login can request more than a node can compute.
The next check belongs to the address that waits longest since its last one, and within it to the user that
does. An address with a hundred guesses delays another address by one check.

A full queue first drops checks whose clients have disconnected. Then the address with most pending checks
gives up its newest one; a new check of that address itself is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from mirrormq.auth.client_peer import address_block
from mirrormq.auth.passwords import PasswordCheck

PENDING_PER_ADDRESS_MAX = 64
"""Different passwords of one address that wait: 3 to 6 s of work, within `handshake_timeout` (10 s)."""

PENDING_PER_USER_MAX = 16
"""Different passwords for one user that wait, over all addresses. A user has one password: more than a few
are guesses."""

PENDING_MAX = 512
"""Different passwords that wait on a node. Each holds a name, a password and the callbacks of its clients."""


class PasswordJob:
    """Hash to compute, with every client of one address that waits for it.

    Clients that reconnect together send the same password; it is hashed once.
    """

    __slots__ = ("address", "checks", "fingerprint", "name")

    def __init__(self, address: str, fingerprint: bytes, check: PasswordCheck) -> None:
        self.address = address
        self.fingerprint = fingerprint
        self.name = check.user.name
        self.checks = [check]

    @property
    def wanted(self) -> bool:
        return any(check.wanted() for check in self.checks)


class PasswordQueue:
    """Decides which password is hashed next, and which is refused."""

    def __init__(self) -> None:
        self._pending: dict[PasswordJob, None] = {}
        """Oldest first."""
        self._jobs: dict[tuple[str, bytes], PasswordJob] = {}
        """Pending and running jobs by address and fingerprint."""
        self._turn = 0
        self._served: dict[tuple[str, ...], int] = {}
        """Turn in which an address, and a user of it, was last served or began to wait. Holds only addresses
        with pending jobs. A new address starts at the current turn: it overtakes no address that waits."""

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, check: PasswordCheck, fingerprint: bytes) -> list[PasswordCheck]:
        """Enqueue a check; return the checks that are refused for it, which may be itself."""
        address = address_block(check.host)
        job = self._jobs.get((address, fingerprint))
        if job is not None:
            job.checks.append(check)
            return []
        job = PasswordJob(address, fingerprint, check)
        refused: list[PasswordCheck] = []
        for size_max, counts in self._bounds(job):
            rival = self._rival(job, size_max, counts)
            if rival is job:
                return [*refused, check]
            if rival is not None:
                self._remove(rival)
                refused += rival.checks
        self._pending[job] = None
        self._jobs[address, fingerprint] = job
        for key in ((address,), (address, job.name)):
            self._served.setdefault(key, self._turn)
        return refused

    def next(self) -> PasswordJob | None:
        """Take the job whose turn it is; `finished` must follow."""
        self._drop_abandoned(list(self._pending))
        if not self._pending:
            return None
        job = min(self._pending, key=self._waits_since)
        del self._pending[job]
        self._turn += 1
        waiting = {key for other in self._pending for key in ((other.address,), (other.address, other.name))}
        self._served = {key: turn for key, turn in self._served.items() if key in waiting}
        for key in waiting & {(job.address,), (job.address, job.name)}:
            self._served[key] = self._turn
        return job

    def finished(self, job: PasswordJob) -> list[PasswordCheck]:
        """Forget a job that `next` gave; return the checks that still want its result."""
        del self._jobs[job.address, job.fingerprint]
        return [check for check in job.checks if check.wanted()]

    def _waits_since(self, job: PasswordJob) -> tuple[int, int]:
        return self._served[(job.address,)], self._served[job.address, job.name]

    def _bounds(self, new: PasswordJob) -> tuple[tuple[int, Callable[[PasswordJob], bool]], ...]:
        """Return each limit with the jobs that it counts."""
        return (
            (PENDING_PER_ADDRESS_MAX, lambda job: job.address == new.address),
            (PENDING_PER_USER_MAX, lambda job: job.name == new.name),
            (PENDING_MAX, lambda job: True),
        )

    def _rival(
        self, new: PasswordJob, size_max: int, counts: Callable[[PasswordJob], bool]
    ) -> PasswordJob | None:
        """Return the job that makes room under one limit: None if there is room, `new` if it is refused."""
        counted = [job for job in self._pending if counts(job)]
        if len(counted) < size_max:
            return None
        self._drop_abandoned(counted)
        counted = [job for job in counted if job in self._pending]
        if len(counted) < size_max:
            return None
        per_address = Counter(job.address for job in counted)
        busiest, most = per_address.most_common(1)[0]
        # The new job would give its address as many jobs as the busiest one has: evicting another address
        # would only let two addresses evict each other in turn.
        if most <= per_address[new.address] + 1:
            return new
        return next(job for job in reversed(counted) if job.address == busiest)

    def _drop_abandoned(self, jobs: list[PasswordJob]) -> None:
        for job in jobs:
            if not job.wanted:
                self._remove(job)

    def _remove(self, job: PasswordJob) -> None:
        del self._pending[job]
        del self._jobs[job.address, job.fingerprint]
