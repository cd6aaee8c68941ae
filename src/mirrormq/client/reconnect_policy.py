"""Reconnect policy: which of several URIs to try next, and after which pause. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

BACKOFF_FACTOR = 2.0
JITTER = 0.2
"""Share of a pause that a random number may take off: many clients must not reconnect in the same moment."""


class Attempt(NamedTuple):
    """Next attempt to connect."""

    address: int
    """Index of the URI."""
    wait_s: float


class ReconnectPolicy:
    """Try URIs in order without a pause; after a round in which all failed the pause grows.

    An open connection is no success yet: the caller calls `succeeded` after useful work. A broker that
    accepts connections and then refuses the work gets the same backoff as one that is down.
    """

    def __init__(
        self,
        addresses: int,
        first_wait_s: float,
        wait_max_s: float,
        random: Callable[[], float] = lambda: 0.0,
    ) -> None:
        if addresses < 1:
            raise ValueError("give at least one URI")
        self._addresses = addresses
        self._first_wait_s, self._wait_max_s = first_wait_s, wait_max_s
        self._random = random
        """Function that returns a number from 0 to below 1."""
        self.address = 0
        self._failures = 0
        self._wait_s = first_wait_s

    def succeeded(self) -> None:
        """Reset the pauses after useful work; the URI stays the preferred one."""
        self._failures = 0
        self._wait_s = self._first_wait_s

    def failed(self, *, permanent: bool = False) -> Attempt:
        """Return the next attempt after the connection to `address` failed or broke.

        `permanent` (a refused login, for example) skips the small pauses: only an operator can help.
        """
        self.address = (self.address + 1) % self._addresses
        self._failures += 1
        if self._failures % self._addresses:
            return Attempt(self.address, 0.0)
        wait_s = self._wait_max_s if permanent else self._wait_s
        self._wait_s = min(self._wait_s * BACKOFF_FACTOR, self._wait_max_s)
        return Attempt(self.address, wait_s * (1 - JITTER * self._random()))
