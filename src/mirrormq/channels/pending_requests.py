"""Pending requests of a channel, and the frames that wait for their replies.

Some replies are available at once, others come from another node or from the metadata log. A channel that
waits for a reply processes no more frames: they are *postponed*, in order, until the reply arrives. The
other channels of the connection continue. A later refusal closes the channel, or the connection, exactly
as an immediate error would. A reply for a closed channel is ignored.
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
    """One request of one channel, until its reply."""

    __slots__ = ("_channel", "_error", "_method_id", "_open", "_waiting")

    def __init__(self, channel: Channel, method_id: int) -> None:
        self._channel = channel
        self._method_id = method_id
        self._open = True
        self._waiting = False
        self._error: AmqpError | None = None
        channel.waiting.asked += 1

    def wait(self) -> None:
        """Make the channel wait, unless the reply arrived at once."""
        if self._error is not None:
            raise self._error
        if self._open:
            self._waiting = True
            self._channel.waiting.count += 1

    def answer(self, then: Callable[P, object]) -> Callable[P, bool]:
        """Return the callback for the reply. It returns whether the channel could still use the reply."""

        def answered(*args: P.args, **kwargs: P.kwargs) -> bool:
            if not self._close():
                return False
            if not self._waiting:
                then(*args, **kwargs)
                self._channel.waiting.notify()
                return True
            try:
                then(*args, **kwargs)
            except AmqpError as error:
                self._fail(error)
            self._channel.waiting.notify()
            self._channel.waiting.resume()
            return True

        return answered

    def refused(self, error: AmqpError) -> None:
        """Fail the request with an error."""
        if not self._close():
            return
        if self._waiting:
            self._fail(error)
            self._channel.waiting.resume()
        else:
            # `wait` raises it, so that an immediate refusal takes the path of an ordinary exception.
            self._error = error

    def _close(self) -> bool:
        """Close the request. Return whether the channel can still use the reply."""
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
    """Number of replies that a channel waits for, and the frames and notifications that wait meanwhile."""

    __slots__ = ("_channel", "_notifications", "_postponed", "asked", "count")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.count = 0
        self.asked = 0
        """Requests without a reply, including those whose reply arrives before the channel waits."""
        self._notifications: list[bytes] = []
        self._postponed: deque[tuple[int, Callable[[], None]]] = deque()

    def postpone(self, size_bytes: int, action: Callable[[], None]) -> None:
        """Postpone a frame."""
        self._postponed.append((size_bytes, action))
        self._channel.connection.postponed(size_bytes)

    def resume(self) -> None:
        """Process postponed frames, up to the next request."""
        connection = self._channel.connection
        while self._postponed and not self.count:
            size_bytes, action = self._postponed.popleft()
            connection.postponed(-size_bytes)
            connection.replay(action)
        if not self.count:
            connection.channel_answered()

    def add_notification(self, payload: bytes) -> None:
        """Queue a notification that no request asked for: it is sent after the pending replies."""
        self._notifications.append(payload)
        self.notify()

    def notify(self) -> None:
        """Send the notifications, unless a reply must be sent first."""
        while self._notifications and not self.asked:
            self._channel.send(self._notifications.pop(0))

    def abandon(self) -> None:
        """Discard everything: the channel is closed."""
        self.count = self.asked = 0
        self._notifications.clear()
