"""Queue interface for channels, independent of the node that is the queue's master.

A queue of this node and a queue whose master is another node implement the same interface. An operation with
a result is a *request*: it takes a callback for the reply and one for the error. Exactly one of them is
called: at once by a queue of this node, later by a queue that must wait for its master.

    publish, acknowledge, requeue, reject, unsubscribe, ready_again, touch,
    deliver_published                                                           one-way operations
    get, count, purge, subscribe, check_deletion, handle_range_request          requests

An object with this interface exists for one epoch of one master. The vhost replaces it when another master
takes over. The replaced object ignores later operations, except those that it passes to its successor.
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
"""Error callback of a request; the client receives the error as if it had been raised at once."""


class Publisher(Protocol):
    """Publisher of messages: a channel that waits for confirms."""

    def confirmed(self, first: int, last: int) -> None:
        """Count publishes `first` to `last` as confirmed by one more of their queues."""

    def refused(self, number: int) -> None:
        """Record that a queue refused this publish (`reject-publish`)."""


class Subscriber(QueueConsumer, Protocol):
    """Consumer of a channel of this node."""

    queue: QueueInterface
    """Queue that it consumes from; replaced when another master takes over."""

    @property
    def cancel_on_failover(self) -> bool:
        """Consumer requests a cancellation instead of a move to the new master."""


class Pumped(Protocol):
    """Object with work at the end of a turn."""

    awake: bool
    """Already on the list of objects to pump."""
    deleted: bool

    def pump(self) -> bool:
        """Do the work of one turn; True if more is left."""


class QueueInterface(Pumped, Protocol):
    """Queue as channels use it."""

    vhost: str
    name: str
    settings: QueueSettings
    owner: object | None
    """Connection that an exclusive queue belongs to; a placeholder, if the connection is on another node."""

    @property
    def congested(self) -> bool:
        """Consumers have more messages than they need, so publishers may pause for a moment."""

    @property
    def full(self) -> bool:
        """Publishers must wait without a time limit; the broker's internal messages are dropped."""

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the queue is no longer full."""

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Append messages numbered `first`, `first + 1` … by their publisher, if it wants confirms. `origin`
        identifies messages from another node, or that an earlier master may have; the queue keeps them
        once."""

    def get(self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        """Fetch one message, and report the number of ready messages behind it. If `answered` returns False,
        the client is gone and the message is requeued."""

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """Report the numbers of ready messages and of consumers. Counts as use of the queue."""

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """Drop all ready messages; reports their number."""

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """Check whether the queue may be deleted; reports the number of ready messages, or the reason against
        it."""

    def subscribe(self, consumer: Subscriber, answered: Callable[[], object], refused: Refused) -> None:
        """Add a consumer, or refuse it because the queue is in exclusive use."""

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Handle a range or lease request (`ranges.range_protocol`). Requests of one `reader` are handled in
        order."""

    def deliver_published(self) -> None:
        """Deliver earlier publishes to consumers as far as they have credit, before consumers leave."""

    def unsubscribe(self, consumer: Subscriber) -> None:
        """Remove a consumer; its channel settles the deliveries that it holds."""

    def ready_again(self, consumer: Subscriber) -> None:
        """Resume a consumer whose prefetch was used up and now has room."""

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Return whether the consumer receives messages, and does not wait for the single active consumer to
        leave."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove messages that consumers acknowledged."""

    def requeue(self, messages: Sequence[Message]) -> None:
        """Make messages ready again that consumers returned."""

    def reject(self, messages: Sequence[Message]) -> None:
        """Discard messages that consumers rejected without requeue."""

    def delivered_before(self, sequence: int, holder: str = "", unclaimed_up_to: int | None = None) -> None:
        """Record that consumers, of node `holder`, have had messages up to `sequence` in an earlier epoch.
        Those that remain are redelivered (redelivery-marked, G5), but of those that the holder keeps track of
        only the ones up to `unclaimed_up_to`: its claim, which follows, has all others."""

    def keep(self, holder: str, claim: Claim) -> None:
        """Withhold messages that clients of this node (`holder`) keep from an earlier epoch (`ha-redeliver:
        lost`)."""

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Settle messages that clients keep from an earlier epoch."""

    def touch(self) -> None:
        """Reset the idle time of the queue."""

    def apply(self, settings: QueueSettings) -> None:
        """Apply settings that a policy has changed."""

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """Delete the queue: notify its consumers and confirm waiting publishes."""
