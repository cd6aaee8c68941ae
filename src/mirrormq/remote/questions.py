"""What is asked of a queue of another node, and is not answered yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.errors import NotFound
from mirrormq.queues.face import Refused
from mirrormq.ranges.inquiry import Reply
from mirrormq.remote.handover import Question
from mirrormq.remote.messages import Answer, Ask, Inquire, Inquired, Refusal, Subscribe
from mirrormq.remote.place import Place
from mirrormq.remote.refusals import error_of
from mirrormq.remote.stream import Stream
from mirrormq.remote.subscription import Subscription

if TYPE_CHECKING:
    from mirrormq.queues.consumers import QueueConsumer


class Asked(NamedTuple):
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


class Questions:
    """The questions of this node's channels to one queue, in one tenure."""

    __slots__ = ("_asked", "_place", "_unsent")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._asked: dict[int, Asked] = {}
        self._unsent: list[Ask | Inquire | Subscribe] = []

    def add(self, item: Ask | Inquire | Subscribe, asked: Asked) -> None:
        """A question to send."""
        self._asked[item.question] = asked
        self._unsent.append(item)

    def send(self, stream: Stream) -> None:
        """Send what has not been sent."""
        if self._unsent:
            for item in self._unsent:
                stream.put(item)
            self._unsent = []

    def take(self, question: int) -> Asked | None:
        """The answer has come."""
        return self._asked.pop(question, None)

    def leave(self, consumer: QueueConsumer) -> None:
        """A consumer leaves that the master has not answered yet."""
        for asked in self._asked.values():
            if asked.subscription is not None and asked.subscription.consumer is consumer:
                asked.subscription.gone = True

    def take_all(self) -> list[Asked]:
        """The tenure is over; nobody asks again for a consumer that has left."""
        asked, self._asked, self._unsent = list(self._asked.values()), {}, []
        return [one for one in asked if one.subscription is None or not one.subscription.gone]

    def answer(self, item: Answer | Inquired | Refusal) -> None:
        """Numbers, or an error."""
        asked = self.take(item.question)
        if asked is None:
            return
        if isinstance(item, Refusal):
            asked.refused(error_of(item.code, item.explanation, item.reason))
        elif isinstance(item, Inquired):
            asked.answered(Reply(item.headers, item.body))
        else:
            asked.answered(*item.numbers)

    def not_found(self, asked: Asked) -> None:
        """The queue is gone."""
        if asked.deleting:
            asked.answered(0)
        else:
            asked.refused(NotFound(f"no queue '{self._place.name}' in vhost '{self._place.vhost}'"))
