"""Metadata commands of leases, proposed together.

A query over many queues takes and settles all of them in one round trip. Every command alone would cost a
sync of the metadata's log. The commands of a turn are therefore collected and proposed with one sync at the
next pump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirrormq.errors import AmqpError
from mirrormq.leases.lease_host import LeaseHost
from mirrormq.metadata.commands import Command


class LeaseWrite(NamedTuple):
    """Command that waits for the end of the turn."""

    command: Command
    user: str
    done: Callable[[], object]
    refused: Callable[[AmqpError], object]


class LeaseWrites:
    """Commands of one node's leases that are not proposed yet."""

    def __init__(self, broker: LeaseHost) -> None:
        self._broker = broker
        self._waiting: list[LeaseWrite] = []
        """At most one for each request of a client; the metadata store limits what it accepts."""
        self.awake = False
        self.deleted = False

    def add(
        self,
        command: Command,
        user: str,
        done: Callable[[], object],
        refused: Callable[[AmqpError], object],
    ) -> None:
        """Propose a command for a user at the next pump. Call `done` when it is applied, `refused` if the
        store does not accept it."""
        self._waiting.append(LeaseWrite(command, user, done, refused))
        self._broker.wake(self)

    def pump(self) -> bool:
        """Propose all waiting commands."""
        waiting, self._waiting = self._waiting, []
        with self._broker.metadata.together():
            for write in waiting:
                try:
                    self._broker.write(write.command, write.user, write.done)
                except AmqpError as error:
                    write.refused(error)
        return False
