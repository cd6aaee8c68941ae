"""Pending requests to a queue with its master on another node, and the errors that the master returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.errors import (
    AccessRefused,
    AmqpError,
    ChannelError,
    InternalError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from mirrormq.peers.requests import PendingRequests
from mirrormq.queues.queue_interface import Refused
from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.ranges.range_request import RangeReply
from mirrormq.remote.handover import RepeatableRequest
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_messages import (
    ItemStream,
    QueueReply,
    QueueRequest,
    RangeQuery,
    RangeQueryReply,
    RemoteRefusal,
    Subscribe,
)
from mirrormq.remote.subscription import Subscription

if TYPE_CHECKING:
    from mirrormq.queues.consumer_turns import QueueConsumer


class PendingQueueRequest(NamedTuple):
    """Request without a reply yet."""

    again: RepeatableRequest
    """Repeats the request on another queue object."""
    answered: Callable[..., object]
    refused: Refused
    no_ack: bool = False
    """Whether a get needs no acknowledgement: the message is settled once it is delivered."""
    deleting: bool = False
    """Whether the request deletes the queue. It then succeeds if the queue is already gone."""
    subscription: Subscription | None = None


class QueueRequests:
    """Pending requests of this node's channels to one queue, in one epoch."""

    __slots__ = ("_pending", "_place", "_unsent")

    def __init__(self, place: QueueRef) -> None:
        self._place = place
        self._pending = PendingRequests[PendingQueueRequest]()
        self._unsent: list[QueueRequest | RangeQuery | Subscribe] = []

    def add(self, item: QueueRequest | RangeQuery | Subscribe, pending: PendingQueueRequest) -> None:
        """Queue a request for sending."""
        self._pending.put(item.request_id, pending)
        self._unsent.append(item)

    def send(self, stream: ItemStream) -> None:
        """Send the requests that have not been sent."""
        if self._unsent:
            for item in self._unsent:
                stream.put(item)
            self._unsent = []

    def take(self, request_id: int) -> PendingQueueRequest | None:
        """Remove and return the request that a reply belongs to; None if it is unknown."""
        return self._pending.take(request_id)

    def leave(self, consumer: QueueConsumer) -> None:
        """Mark a consumer as gone that leaves before the master has replied."""
        for pending in self._pending:
            if pending.subscription is not None and pending.subscription.consumer is consumer:
                pending.subscription.gone = True

    def take_all(self) -> list[PendingQueueRequest]:
        """Remove and return all requests at the end of the epoch, except for consumers that have left."""
        self._unsent = []
        return [
            each
            for each in self._pending.take_all()
            if each.subscription is None or not each.subscription.gone
        ]

    def answer(self, item: QueueReply | RangeQueryReply | RemoteRefusal) -> None:
        """Complete a request with the master's reply or error."""
        pending = self.take(item.request_id)
        if pending is None:
            return
        if isinstance(item, RemoteRefusal):
            pending.refused(error_of(item.code, item.explanation, item.reason))
        elif isinstance(item, RangeQueryReply):
            pending.answered(RangeReply(item.headers, item.body))
        else:
            pending.answered(*item.numbers)

    def not_found(self, pending: PendingQueueRequest) -> None:
        """Complete a request to a queue that no longer exists."""
        if pending.deleting:
            pending.answered(0)
        else:
            explanation = f"no queue '{self._place.name}' in vhost '{self._place.vhost}'"
            pending.refused(NotFound(explanation, reason=NO_QUEUE))


_BY_CODE: dict[int, type[ChannelError]] = {
    error.code: error for error in (AccessRefused, NotFound, ResourceLocked, PreconditionFailed)
}


def error_of(code: int, explanation: str, reason: str = "") -> AmqpError:
    """Return the exception for an error reply of a master."""
    kind = _BY_CODE.get(code)
    return (InternalError if kind is None else kind)(explanation, reason=reason)
