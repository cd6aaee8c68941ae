"""What is asked of a queue of another node, and is not answered yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.errors import NotFound
from mirrormq.queues.queue_interface import Refused
from mirrormq.ranges.range_request import RangeReply
from mirrormq.remote.handover import Question
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_errors import error_of
from mirrormq.remote.remote_messages import (
    QueueReply,
    QueueRequest,
    RangeQuery,
    RangeQueryReply,
    RemoteRefusal,
    Subscribe,
)
from mirrormq.remote.stream import Stream
from mirrormq.remote.subscription import Subscription

if TYPE_CHECKING:
    from mirrormq.queues.consumer_turns import QueueConsumer


class PendingQueueRequest(NamedTuple):
    """A question under way."""

    again: Question
    """Asks another queue the same."""
    answered: Callable[..., object]
    refused: Refused
    no_ack: bool = False
    """A get: the message is done with once it is handed over."""
    deleting: bool = False
    """A queue that is gone may be deleted, as far as anybody cares."""
    subscription: Subscription | None = None


class QueueRequests:
    """The questions of this node's channels to one queue, in one tenure."""

    __slots__ = ("_asked", "_place", "_unsent")

    def __init__(self, place: QueueRef) -> None:
        self._place = place
        self._asked: dict[int, PendingQueueRequest] = {}
        self._unsent: list[QueueRequest | RangeQuery | Subscribe] = []

    def add(self, item: QueueRequest | RangeQuery | Subscribe, asked: PendingQueueRequest) -> None:
        """A question to send."""
        self._asked[item.question] = asked
        self._unsent.append(item)

    def send(self, stream: Stream) -> None:
        """Send what has not been sent."""
        if self._unsent:
            for item in self._unsent:
                stream.put(item)
            self._unsent = []

    def take(self, question: int) -> PendingQueueRequest | None:
        """The answer has come."""
        return self._asked.pop(question, None)

    def leave(self, consumer: QueueConsumer) -> None:
        """A consumer leaves that the master has not answered yet."""
        for asked in self._asked.values():
            if asked.subscription is not None and asked.subscription.consumer is consumer:
                asked.subscription.gone = True

    def take_all(self) -> list[PendingQueueRequest]:
        """The tenure is over; nobody asks again for a consumer that has left."""
        asked, self._asked, self._unsent = list(self._asked.values()), {}, []
        return [one for one in asked if one.subscription is None or not one.subscription.gone]

    def answer(self, item: QueueReply | RangeQueryReply | RemoteRefusal) -> None:
        """Numbers, or an error."""
        asked = self.take(item.question)
        if asked is None:
            return
        if isinstance(item, RemoteRefusal):
            asked.refused(error_of(item.code, item.explanation, item.reason))
        elif isinstance(item, RangeQueryReply):
            asked.answered(RangeReply(item.headers, item.body))
        else:
            asked.answered(*item.numbers)

    def not_found(self, asked: PendingQueueRequest) -> None:
        """The queue is gone."""
        if asked.deleting:
            asked.answered(0)
        else:
            asked.refused(NotFound(f"no queue '{self._place.name}' in vhost '{self._place.vhost}'"))
