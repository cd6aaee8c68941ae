"""Run history: events that clients saw, in order; the only input of most checkers.

`SingleCopies` excuses messages that the guarantees do not cover, because the only disk that had them failed.
"""

from __future__ import annotations

from typing import NamedTuple


class SentRecord(NamedTuple):
    """Publish by a client."""

    channel: str
    """Name of the publisher's channel."""
    number: int
    """Number that grows with every publish of the run."""
    queue: str
    persistent: bool
    at_ms: int
    priority: int = 0


class ConfirmedRecord(NamedTuple):
    """Confirm of a message by the broker."""

    body: str
    node: str
    at_ms: int


class DeliveredRecord(NamedTuple):
    """Delivery of a message to a consumer."""

    body: str
    consumer: str
    subscription: int
    """Number of the consumer's subscription: each new connection begins another one."""
    redelivered: bool
    orphaned: bool
    died: bool
    """Flag: the message comes from another queue, as a dead letter."""
    node: str
    at_ms: int
    moved: bool = False
    """Flag: a link has moved the message from another queue."""

    @property
    def detoured(self) -> bool:
        """Return whether the message has not come directly from its publisher."""
        return self.orphaned or self.died or self.moved


class Released(NamedTuple):
    """End of a hold: a consumer requeued a message, or lost its connection and with it all messages. An
    acknowledged message stays held: the consumer must not get it again."""

    consumer: str
    subscription: int
    body: str = ""
    """Body of the message; empty: all messages of the consumer."""


class AcknowledgedRecord(NamedTuple):
    """Acknowledgement of a message by a consumer. It may not have arrived."""

    body: str
    node: str
    at_ms: int


class LeasedRecord(NamedTuple):
    """Messages that a lease received for one of its takes."""

    lease: str
    number: int
    """Number of the take."""
    bodies: tuple[str, ...]
    at_ms: int


class ReadRecord(NamedTuple):
    """Message that a range read returned."""

    queue: str
    queue_id: int
    sequence: int
    body: str
    node: str
    at_ms: int


class ReceivedRecord(NamedTuple):
    """Delivery of a message to a link."""

    body: str
    link: str
    at_ms: int


class RunHistory:
    """Record of everything that clients and links saw."""

    def __init__(self) -> None:
        self.sent: dict[str, SentRecord] = {}
        self.confirmed: dict[str, ConfirmedRecord] = {}
        self.refused: set[str] = set()
        self.delivered: list[DeliveredRecord] = []
        self.held: list[DeliveredRecord | Released] = []
        """Deliveries to consumers, and their ends."""
        self.leased: list[LeasedRecord] = []
        self.read: list[ReadRecord] = []
        self.acknowledged: dict[str, AcknowledgedRecord] = {}
        self.received: list[ReceivedRecord] = []
        """Deliveries to links."""
        self.moved_ms: dict[str, int] = {}
        """Time at which a link received a message first, by message."""
        self.broken_ms: list[int] = []
        """Times at which links lost or gave up their connections."""
        self.crowded_ms: dict[str, list[tuple[int, int]]] = {}
        """Times, with their ends, in which the source queue of a link had more than one consumer."""
        self.lossy: frozenset[str] = frozenset()
        """Queues whose link may lose messages by breaks."""


class SingleCopies:
    """Times in which messages may have been on one disk only, which failed then."""

    def __init__(self) -> None:
        self._excuses: list[tuple[int, int]] = []

    def excuse(self, from_ms: int, to_ms: int) -> None:
        """Excuse messages confirmed in this time."""
        self._excuses.append((from_ms, to_ms))

    def is_excused(self, at_ms: int) -> bool:
        """Return whether a message that was confirmed at this time may be lost."""
        return any(start <= at_ms <= stop for start, stop in self._excuses)

    def may_be_lost(self, body: str, history: RunHistory) -> bool:
        """Return whether a message may be lost: it was published then, or a link moved it before that."""
        published = history.confirmed.get(body) or history.sent[body]
        moved_ms = history.moved_ms.get(body)
        moved = moved_ms is not None and any(stop >= moved_ms for _, stop in self._excuses)
        return moved or self.is_excused(published.at_ms)
