"""What clients saw, in the order in which they saw it: all that checkers may go by."""

from __future__ import annotations

from typing import NamedTuple


class SentRecord(NamedTuple):
    """A publisher tried."""

    channel: str
    """Through which of whose channels."""
    number: int
    """Grows with everything that is sent."""
    queue: str
    persistent: bool
    at_ms: int
    priority: int = 0


class ConfirmedRecord(NamedTuple):
    """The broker says that a message is safe."""

    body: str
    node: str
    at_ms: int


class DeliveredRecord(NamedTuple):
    """A consumer got a message."""

    body: str
    consumer: str
    subscription: int
    """Which of the consumer's subscriptions: it begins anew when it is connected anew."""
    redelivered: bool
    orphaned: bool
    died: bool
    """It comes from another queue, as a dead letter."""
    node: str
    at_ms: int

    @property
    def detoured(self) -> bool:
        """Has it come another way than straight from its publisher?"""
        return self.orphaned or self.died


class Released(NamedTuple):
    """A consumer does not hold a message any more, or nothing at all: it gave it back, or lost its
    connection. One that was acknowledged is held: the consumer must not get it again."""

    consumer: str
    subscription: int
    body: str = ""
    """Empty: everything."""


class AcknowledgedRecord(NamedTuple):
    """A consumer is done with a message. Whether that arrived nobody knows."""

    body: str
    node: str
    at_ms: int


class LeasedRecord(NamedTuple):
    """A lease has got what it had taken."""

    lease: str
    number: int
    """Which of its takes."""
    bodies: tuple[str, ...]
    at_ms: int


class RunHistory:
    """Everything that was seen from outside."""

    def __init__(self) -> None:
        self.sent: dict[str, SentRecord] = {}
        self.confirmed: dict[str, ConfirmedRecord] = {}
        self.refused: set[str] = set()
        self.delivered: list[DeliveredRecord] = []
        self.held: list[DeliveredRecord | Released] = []
        """Deliveries to consumers, and their ends."""
        self.leased: list[LeasedRecord] = []
        self.acknowledged: dict[str, AcknowledgedRecord] = {}
