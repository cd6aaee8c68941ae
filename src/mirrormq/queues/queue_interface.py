"""What channels see of a queue, wherever its messages are kept.

A queue of this node and a queue whose master is on another node have the same face. Whatever may have to
travel is a *question*: it takes what to do with the answer and what to do with a refusal, and exactly one
of the two is called, at once by a queue of this node, later by one that has to ask.

    publish, acknowledge, requeue, reject, unsubscribe, ready_again, touch,
    deliver_published                                                           said, not asked
    get, count, purge, subscribe, check_deletion, inquire                       asked

An object with this face lives as long as one master's tenure. When another master takes over, the vhost
puts a new object in its place; what is said to the old one afterwards counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mirrormq.errors import AmqpError
from mirrormq.queues.claims import Claim, Settlement
from mirrormq.queues.consumer_turns import QueueConsumer
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.ranges.range_request import Answered, RangeRequest

Refused = Callable[[AmqpError], None]
"""The question was answered with an error, for the client to be told as if it had been raised at once."""


class Publisher(Protocol):
    """Who published: a channel that wants to know what became of its messages."""

    def confirmed(self, first: int, last: int) -> None:
        """Publishes numbered `first` to `last` are safe in one more of their queues."""

    def refused(self, number: int) -> None:
        """A queue would not take this one (`reject-publish`)."""


class Subscriber(QueueConsumer, Protocol):
    """A consumer of a channel of this node."""

    queue: QueueInterface
    """Where it consumes from: changed when another master takes over."""

    @property
    def cancel_on_failover(self) -> bool:
        """Would it rather be cancelled than moved to a new master?"""


class Pumped(Protocol):
    """What has something to do at the end of a turn."""

    awake: bool
    """Already on the list of what to pump."""
    deleted: bool

    def pump(self) -> bool:
        """Do it; True if there is more than one turn's work."""


class QueueInterface(Pumped, Protocol):
    """A queue, as channels see it."""

    vhost: str
    name: str
    settings: QueueSettings
    owner: object | None
    """The connection that an exclusive queue belongs to; no connection here, if it is another node's."""

    @property
    def congested(self) -> bool:
        """Publishers may rest for a moment."""

    @property
    def full(self) -> bool:
        """Publishers must wait, however long it takes; the broker's own messages are dropped."""

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call this once the queue is no longer full."""

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Append messages numbered `first`, `first + 1` … by their publisher, if it wants confirms. Those
        that were published through another node, or to another master before, say so with `origin`, and
        are kept once however often they come."""

    def get(self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        """One message, and how many are ready behind it. If the answer says that nobody is there to take
        the message any more (False), it goes back."""

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """How many messages are ready, how many consumers there are. Counts as use of the queue."""

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """Drop what is ready; says how many that were."""

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """May the queue be deleted? Says how many messages are ready, or why not."""

    def subscribe(self, consumer: Subscriber, answered: Callable[[], object], refused: Refused) -> None:
        """A consumer joins, or is refused because the queue is in exclusive use."""

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """A question about ranges or leases (`ranges.questions`). `reader` is on whose behalf: what it asks
        is answered in order."""

    def deliver_published(self) -> None:
        """Consumers are about to leave: what was published before is theirs, as far as they have credit."""

    def unsubscribe(self, consumer: Subscriber) -> None:
        """A consumer leaves; what it holds is its channel's business."""

    def ready_again(self, consumer: Subscriber) -> None:
        """A consumer that was out of room has some."""

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Does it get messages, and not only wait for the single active consumer to go?"""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Consumers are done with these."""

    def requeue(self, messages: Sequence[Message]) -> None:
        """Consumers gave these back."""

    def reject(self, messages: Sequence[Message]) -> None:
        """Consumers do not want these, and they are not to come back."""

    def delivered_before(self, sequence: int) -> None:
        """Messages up to this one have been with consumers in an earlier tenure: those that are still there
        say so (G5)."""

    def keep(self, holder: str, claim: Claim) -> None:
        """Clients of this node, named `holder`, hold messages from an earlier tenure, and go on holding them
        (`ha-redeliver: lost`)."""

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Clients have settled such messages."""

    def touch(self) -> None:
        """The queue is in use."""

    def apply(self, settings: QueueSettings) -> None:
        """Policies have changed."""

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """The queue is deleted: tell its consumers, confirm what waits."""
