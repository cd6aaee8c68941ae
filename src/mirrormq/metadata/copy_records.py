"""Copies of queues on the disks of nodes, as the record of a queue knows them: parts of `records.Queue`."""

from __future__ import annotations

import msgspec


class CopyReport(msgspec.Struct, frozen=True, array_like=True):
    """Durable position of one member's copy of a queue, as the member read it from its disk at start."""

    node: str
    incarnation: int
    """Incarnation of the node that read it. A report of an earlier incarnation does not count."""
    highest_sequence: int
    """Highest sequence of the messages that the journal stores or acknowledges."""
    messages: int
    delivered_up_to: int

    @property
    def position(self) -> tuple[int, int, int]:
        """Order of copies that are prefixes of one history: appends raise the first value, removals
        the second, deliveries the third."""
        return self.highest_sequence, -self.messages, self.delivered_up_to


class FormerMember(msgspec.Struct, frozen=True, array_like=True):
    """Node that was synchronised and left the in-sync set, with its copy on its disk."""

    node: str
    incarnation: int
    """Incarnation that was synchronised. The copy is trusted if the journal lost nothing since."""
    version: int
    """Version of the view that took the node out of the in-sync set. Its copy has every message that was
    confirmed before."""


class Rescue(msgspec.Struct, frozen=True, array_like=True):
    """Promotion of a copy that may lack messages which other disks hold."""

    epoch: int
    """Epoch that began with the promotion."""
    highest_sequence: int
    """Highest sequence of the promoted copy. The new master does not know messages above it from earlier
    epochs."""
    version: int = 0
    """Version of the view that promoted a copy which may be incomplete; 0: it is complete. A member that was
    synchronised until this view may hold the missing messages."""
