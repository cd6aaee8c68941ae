"""A queue that nobody is master of: those who could be are down, and it waits for one of them."""

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
    """Takes nothing and gives nothing, and says which node it waits for."""

    congested = False
    full = False

    def __init__(self, vhost: str, name: str, settings: QueueSettings, home: str, *, mirrored: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.settings = settings
        self.home = home
        """The node that is named to clients."""
        self._mirrored = mirrored
        self.deleted = False
        self.awake = False
        self.owner: object | None = None
        self._delivered_up_to = 0
        self._claim = NOTHING
        self._waiting: list[Callable[[], None]] = []

    @property
    def absence(self) -> NotFound | None:
        """Why nothing at all can be done with its name, if so. As in RabbitMQ, which does not know a queue
        that is nowhere but on its home node until that node is back, and does know a mirrored one."""
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
        """Nobody would keep them."""
        if publisher is not None:
            for number in range(first, first + len(messages)):
                publisher.refused(number)

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Clients are refused at once; who can wait is called when somebody is master, or it is deleted."""
        self._waiting.append(go_on)

    def _resume_publishers(self) -> None:
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def get(self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        """No."""
        self._refuse(refused)

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """No."""
        self._refuse(refused)

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """No."""
        self._refuse(refused)

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """As in RabbitMQ: a mirrored queue that may not go on with what its mirrors have can be given up, but
        not as an empty one, which nobody knows it to be. One that is on its home node alone will be there
        again when that node is."""
        if not self._mirrored:
            self._refuse(refused)
        elif if_empty:
            refused(PreconditionFailed(f"queue '{self.name}' in vhost '{self.vhost}' not empty"))
        else:
            answered(0)

    def subscribe(self, consumer: Subscriber, answered: Callable[[], object], refused: Refused) -> None:
        """No."""
        self._refuse(refused)

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """No."""
        self._refuse(refused)

    def deliver_published(self) -> None:
        """It has no consumers."""

    def unsubscribe(self, consumer: QueueConsumer) -> None:
        """It has no consumers."""

    def ready_again(self, consumer: QueueConsumer) -> None:
        """It has no consumers."""

    def is_active(self, consumer: QueueConsumer) -> bool:
        """It has no consumers."""
        return False

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """They are not its."""

    def requeue(self, messages: Sequence[Message]) -> None:
        """They are not its."""

    def reject(self, messages: Sequence[Message]) -> None:
        """They are not its."""

    def delivered_before(self, sequence: int) -> None:
        """The next master will want to know."""
        self._delivered_up_to = sequence

    def keep(self, holder: str, claim: Claim) -> None:
        """Its consumers are cancelled, and what they hold returns to the queue when there is a master."""
        self._claim = claim._replace(held=(), requeued=(*claim.requeued, *claim.held))

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """They are not its."""

    def touch(self) -> None:
        """Nobody counts."""

    def pump(self) -> bool:
        """There is nothing to do."""
        return False

    def apply(self, settings: QueueSettings) -> None:
        """Policies have changed."""
        self.settings = settings

    def detach(self, *, keeping: bool = False) -> Handover:
        """Somebody has become master."""
        claim = self._claim if keeping else None
        return Handover(delivered_up_to=self._delivered_up_to, over=self._resume_publishers, claim=claim)

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """The queue is deleted."""
        self.deleted = True
        self._resume_publishers()
