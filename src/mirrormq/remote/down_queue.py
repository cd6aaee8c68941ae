"""Down queue: a queue without a master, because every node that could be master is down. It waits for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrormq.errors import NotFound, PreconditionFailed
from mirrormq.queues.claims import NOTHING, Claim, Settlement
from mirrormq.queues.consumer_turns import QueueConsumer
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue_interface import Publisher, Refused, Subscriber
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.ranges.error_reasons import TRY_AGAIN
from mirrormq.ranges.range_request import Answered, RangeRequest
from mirrormq.remote.handover import Handover


class DownQueue:
    """Queue that refuses all requests and names the node that it waits for."""

    congested = False
    full = False

    def __init__(self, vhost: str, name: str, settings: QueueSettings, home: str, *, mirrored: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.settings = settings
        self.home = home
        """Node that is named to clients."""
        self._mirrored = mirrored
        self.deleted = False
        self.awake = False
        self.owner: object | None = None
        self._delivered_up_to = 0
        self._claim = NOTHING
        self._waiting: list[Callable[[], None]] = []

    @property
    def absence(self) -> NotFound | None:
        """Error for every use of the queue's name, or None. As in RabbitMQ, an unmirrored queue does not
        exist for clients while its home node is down; a mirrored one does."""
        return None if self._mirrored else self._reason()

    def _reason(self) -> NotFound:
        return NotFound(
            f"home node '{self.home}' of durable queue '{self.name}' in vhost '{self.vhost}' "
            "is down or inaccessible",
            reason=TRY_AGAIN,
        )

    def _refuse(self, refused: Refused) -> None:
        refused(self._reason())

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Refuse the messages: no node would keep them."""
        if publisher is not None:
            for number in range(first, first + len(messages)):
                publisher.refused(number)

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` when the queue has a master or is deleted. Publishes of clients do not wait: they are
        refused at once."""
        self._waiting.append(resume)

    def _resume_publishers(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def get(self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        """Refuse the request."""
        self._refuse(refused)

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """Refuse the request."""
        self._refuse(refused)

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """Refuse the request."""
        self._refuse(refused)

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """Allow the deletion of a mirrored queue, as in RabbitMQ, although no mirror may be promoted.
        `if_empty` is refused, because the length is not known. An unmirrored queue is refused: it returns
        with its home node."""
        if not self._mirrored:
            self._refuse(refused)
        elif if_empty:
            refused(PreconditionFailed(f"queue '{self.name}' in vhost '{self.vhost}' not empty"))
        else:
            answered(0)

    def subscribe(self, consumer: Subscriber, answered: Callable[[], object], refused: Refused) -> None:
        """Refuse the consumer."""
        self._refuse(refused)

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Refuse the request."""
        self._refuse(refused)

    def deliver_published(self) -> None:
        """Do nothing: a down queue has no consumers."""

    def unsubscribe(self, consumer: QueueConsumer) -> None:
        """Do nothing: a down queue has no consumers."""

    def ready_again(self, consumer: QueueConsumer) -> None:
        """Do nothing: a down queue has no consumers."""

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Return False: a down queue has no consumers."""
        return False

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Do nothing: the messages belong to an earlier master."""

    def requeue(self, messages: Sequence[Message]) -> None:
        """Do nothing: the messages belong to an earlier master."""

    def reject(self, messages: Sequence[Message]) -> None:
        """Do nothing: the messages belong to an earlier master."""

    def delivered_before(self, sequence: int, holder: str = "", unclaimed_up_to: int | None = None) -> None:
        """Remember the mark for the next master."""
        self._delivered_up_to = sequence

    def keep(self, holder: str, claim: Claim) -> None:
        """Remember the claim for the next master. The consumers are cancelled, so their deliveries are
        requeued there."""
        self._claim = claim._replace(held=(), requeued=(*claim.requeued, *claim.held))

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Do nothing: the claim already requeues the messages."""

    def touch(self) -> None:
        """Do nothing: a down queue does not measure its idle time."""

    def pump(self) -> bool:
        """Do nothing: there is no work."""
        return False

    def apply(self, settings: QueueSettings) -> None:
        """Apply settings that a policy has changed."""
        self.settings = settings

    def detach(self, *, keeping: bool = False) -> Handover:
        """End this object because the queue has a master."""
        claim = self._claim if keeping else None
        return Handover(delivered_up_to=self._delivered_up_to, over=self._resume_publishers, claim=claim)

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """Delete the queue, and resume waiting publishers."""
        self.deleted = True
        self._resume_publishers()
