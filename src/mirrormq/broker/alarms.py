"""Resource alarms: while one is raised, connections that publish are blocked."""

from __future__ import annotations

from collections.abc import Callable

MEMORY = "memory"
DISK = "disk"


class Alarms:
    """The alarms that are raised, and who wants to know when that changes."""

    def __init__(self) -> None:
        self.raised: set[str] = set()
        self.listeners: list[Callable[[], None]] = []

    @property
    def reason(self) -> str:
        """What connection.blocked says, in RabbitMQ's words."""
        if self.raised == {MEMORY}:
            return "low on memory"
        return "low on disk" if self.raised == {DISK} else "low on memory & disk"

    def set(self, resource: str, raised: bool) -> bool:
        """Raise or clear an alarm; True if that changed anything."""
        if raised == (resource in self.raised):
            return False
        if raised:
            self.raised.add(resource)
        else:
            self.raised.discard(resource)
        for listener in self.listeners:
            listener()
        return True
