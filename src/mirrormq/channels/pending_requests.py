"""What a channel has asked and waits for.

Some answers are there at once, others come from another node or from the metadata's log. A channel that
waits for one takes no more frames: they are *postponed*, in order, until it has its answer. The other
channels of the connection go on. A refusal that comes later closes the channel, or the connection, exactly
as if it had been raised at once; an answer for a channel that is gone finds nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

from mirrormq.errors import AmqpError, ChannelError

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

P = ParamSpec("P")


class PendingRequest:
    """One question of one channel, from asking to answer."""

    __slots__ = ("_channel", "_error", "_method_id", "_open", "_waiting")

    def __init__(self, channel: Channel, method_id: int) -> None:
        self._channel = channel
        self._method_id = method_id
        self._open = True
        self._waiting = False
        self._error: AmqpError | None = None
        channel.waiting.asked += 1

    def wait(self) -> None:
        """It has been asked: unless the answer was there at once, the channel waits."""
        if self._error is not None:
            raise self._error
        if self._open:
            self._waiting = True
            self._channel.waiting.count += 1

    def answer(self, then: Callable[P, object]) -> Callable[P, bool]:
        """What to call with the answer; says whether anybody was there to take it."""

        def answered(*args: P.args, **kwargs: P.kwargs) -> bool:
            if not self._close():
                return False
            if not self._waiting:
                then(*args, **kwargs)
                self._channel.waiting.tell()
                return True
            try:
                then(*args, **kwargs)
            except AmqpError as error:
                self._fail(error)
            self._channel.waiting.tell()
            self._channel.waiting.go_on()
            return True

        return answered

    def refused(self, error: AmqpError) -> None:
        """The answer is an error."""
        if not self._close():
            return
        if self._waiting:
            self._fail(error)
            self._channel.waiting.go_on()
        else:
            self._error = error

    def _close(self) -> bool:
        """The answer has come; is anybody there?"""
        channel = self._channel
        if not self._open or channel.closing or channel.connection.closed:
            return False
        self._open = False
        channel.waiting.asked -= 1
        if self._waiting:
            channel.waiting.count -= 1
        return True

    def _fail(self, error: AmqpError) -> None:
        channel = self._channel
        error.at(self._method_id)
        if isinstance(error, ChannelError):
            channel.connection.close_channel(channel, error)
        else:
            channel.connection.fail(error)


class ChannelBacklog:
    """How many answers a channel waits for, and what waits meanwhile: frames, and news for the client."""

    __slots__ = ("_channel", "_news", "_postponed", "asked", "count")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.count = 0
        self.asked = 0
        """Questions without an answer, also those whose answer comes before anybody waits."""
        self._news: list[bytes] = []
        self._postponed: deque[tuple[int, Callable[[], None]]] = deque()

    def postpone(self, size_bytes: int, action: Callable[[], None]) -> None:
        """Take a frame later."""
        self._postponed.append((size_bytes, action))
        self._channel.connection.postponed(size_bytes)

    def go_on(self) -> None:
        """Take what was postponed, up to the next question."""
        connection = self._channel.connection
        while self._postponed and not self.count:
            size_bytes, action = self._postponed.popleft()
            connection.postponed(-size_bytes)
            connection.replay(action)
        if not self.count:
            connection.channel_answered()

    def news(self, payload: bytes) -> None:
        """Something that nobody asked for: it comes behind the answer to what was asked."""
        self._news.append(payload)
        self.tell()

    def tell(self) -> None:
        """Send the news, unless an answer is to come first."""
        while self._news and not self.asked:
            self._channel.send(self._news.pop(0))

    def abandon(self) -> None:
        """The channel is over: it waits for nothing."""
        self.count = self.asked = 0
        self._news.clear()
