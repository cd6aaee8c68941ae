"""Some node of several: one that is dead is skipped, and gone back to when the others are dead too."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mirrormq.spark.client.address import Address
from mirrormq.spark.client.connection import ANSWER_TIMEOUT_S, Connection
from mirrormq.spark.client.errors import Lost

PATIENCE_S = 60.0
"""How long a cluster of which no node answers is tried again: restarts and elections take seconds."""

PAUSE_S = 0.2
"""Between two rounds over all nodes."""


class Nodes:
    """The nodes one may talk to, and the one it is at present."""

    def __init__(
        self,
        addresses: Sequence[Address],
        patience_s: float = PATIENCE_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self.addresses = addresses
        self.patience_s = patience_s
        self._answer_timeout_s = answer_timeout_s
        self._current = 0

    @property
    def where(self) -> str:
        """All of them, for sentences."""
        return ", ".join(address.where for address in self.addresses)

    def next_one(self) -> None:
        """The present one failed: another comes first from now on."""
        self._current = (self._current + 1) % len(self.addresses)

    def connect(self, deadline_s: float | None = None) -> Connection:
        """A connection to the first that answers, tried until `deadline_s` (time.monotonic's).

        Each is tried once even if the deadline is over. A refusal, of a password for example, is final.
        """
        deadline_s = time.monotonic() + self.patience_s if deadline_s is None else deadline_s
        while True:
            for _ in self.addresses:
                try:
                    return Connection(self.addresses[self._current], self._answer_timeout_s)
                except Lost as error:
                    last = error
                    self.next_one()
            if time.monotonic() + PAUSE_S >= deadline_s:
                break
            time.sleep(PAUSE_S)
        if len(self.addresses) == 1:
            raise last
        raise Lost(f"no broker answers at any of {self.where}; the last one said: {last}")
