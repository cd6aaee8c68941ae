"""The frames of an open connection's channels, and how each of them fares.

A channel that waits for an answer has its frames put aside until then (`channels.questions`). A client that
sends ever more to such a channel is no longer read from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.channels.channel import Channel
from mirrormq.connections import handshake
from mirrormq.connections.states import State
from mirrormq.errors import AmqpError, ChannelError, ChannelErrorHard, NotAllowed
from mirrormq.wire import methods
from mirrormq.wire.frames import METHOD
from mirrormq.wire.runs import ACK_SIZE

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

_CHANNEL_OPEN = methods.CHANNEL_OPEN.to_bytes(4, "big")
_CHANNEL_CLOSE = methods.CHANNEL_CLOSE.to_bytes(4, "big")
_CHANNEL_CLOSE_OK = methods.CHANNEL_CLOSE_OK.to_bytes(4, "big")


class ChannelFrames:
    """The part of a Connection that hands frames to its channels."""

    _postponed_bytes = 0
    _overfull = False

    def publishes(  # type: ignore[misc]
        self: Connection, channel: int, publish: bytes, properties: bytes, contents: list[bytes]
    ) -> None:
        """A run of publishes from the scanner."""
        self.effort -= 1 + len(properties) // limits.HEADER_BYTES_PER_EFFORT
        open_channel = self._publishing_channel(channel, publish)
        if open_channel is None:
            return
        if open_channel.waiting.count:
            size_bytes = sum(map(len, contents))
            open_channel.waiting.postpone(
                size_bytes, lambda: self.publishes(channel, publish, properties, contents)
            )
            return
        try:
            open_channel.publishes(publish, properties, contents)
        except ChannelError as error:
            self.close_channel(open_channel, error)

    def publishes_mixed(self: Connection, channel: int, publish: bytes, contents: list[bytes]) -> None:  # type: ignore[misc]
        """A run of publishes whose properties differ."""
        self.effort -= len(contents)
        open_channel = self._publishing_channel(channel, publish)
        if open_channel is None:
            return
        if open_channel.waiting.count:
            size_bytes = sum(map(len, contents))
            open_channel.waiting.postpone(
                size_bytes, lambda: self.publishes_mixed(channel, publish, contents)
            )
            return
        try:
            open_channel.publishes_mixed(publish, contents)
        except ChannelError as error:
            self.close_channel(open_channel, error)

    def acknowledges(self: Connection, channel: int, tags: list[int]) -> None:  # type: ignore[misc]
        """A run of acknowledgements."""
        self.effort -= 1
        acknowledging = self.channels.get(channel)
        if acknowledging is None:
            raise ChannelErrorHard("expected 'channel.open'").at(methods.BASIC_ACK)
        if acknowledging.closing or self.state is not State.OPEN:
            return
        if acknowledging.waiting.count:
            size_bytes = len(tags) * ACK_SIZE
            acknowledging.waiting.postpone(size_bytes, lambda: self.acknowledges(channel, tags))
            return
        try:
            acknowledging.acknowledges(tags)
        except ChannelError as error:
            self.close_channel(acknowledging, error)

    def _publishing_channel(self: Connection, number: int, publish: bytes) -> Channel | None:  # type: ignore[misc]
        """The channel of a publish; None if it is closing and publishes are dropped."""
        channel = self.channels.get(number)
        if channel is None:
            raise self._unopened(METHOD, publish)
        return None if channel.closing or self.state is not State.OPEN else channel

    def frame_of_channel(self: Connection, kind: int, number: int, payload: bytes) -> None:  # type: ignore[misc]
        """Any other frame."""
        if self.state is not State.OPEN:
            raise handshake.not_open(self, kind, number, payload)
        channel = self.channels.get(number)
        ids = payload[:4] if kind == METHOD else b""
        if channel is None:
            if ids != _CHANNEL_OPEN:
                raise self._unopened(kind, payload)
            self._open_channel(number, payload)
        elif channel.waiting.count:
            channel.waiting.postpone(len(payload), lambda: self.frame_of_channel(kind, number, payload))
        elif ids == _CHANNEL_CLOSE:
            methods.decode_channel_close(payload)
            self.end_channel(channel)
            self.send(number, methods.encode_channel_close_ok())
        elif channel.closing:
            if ids == _CHANNEL_CLOSE_OK:
                del self.channels[number]
        else:
            try:
                channel.frame(kind, payload)
            except ChannelError as error:
                self.close_channel(channel, error)

    def _unopened(self: Connection, kind: int, payload: bytes) -> AmqpError:  # type: ignore[misc]
        """What is wrong with a frame of a channel that is not open: if it cannot be read, that."""
        method_id = 0
        if kind == METHOD:
            methods.decode_method(payload)
            method_id = int.from_bytes(payload[:4], "big")
        return ChannelErrorHard("expected 'channel.open'").at(method_id)

    def _open_channel(self: Connection, number: int, payload: bytes) -> None:  # type: ignore[misc]
        methods.decode_channel_open(payload)
        if self.channel_max and len(self.channels) >= self.channel_max:
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) "
                f"has reached the negotiated channel_max ({self.channel_max})",
                class_id=0,
            )
        refusal = self.broker.client_limits.channel_refusal(self.user)
        if refusal is not None:
            raise NotAllowed(refusal, class_id=0)
        self.channels[number] = Channel(self, number)
        self.send(number, methods.encode_channel_open_ok())
        self.broker.events.channel_created(self.channels[number])

    # -- frames that wait -----------------------------------------------------------------------

    def postponed(self: Connection, size_bytes: int) -> None:  # type: ignore[misc]
        """So much more has been put aside, or less; too much of it holds the connection."""
        self._postponed_bytes += size_bytes
        if (self._postponed_bytes > limits.POSTPONED_BYTES_MAX) is self._overfull:
            return
        self._overfull = not self._overfull
        if self._overfull:
            self.hold()
        else:
            self.release()

    def replay(self: Connection, action: Callable[[], None]) -> None:  # type: ignore[misc]
        """Take a frame that was put aside."""
        if self.state is not State.OPEN:
            return
        try:
            action()
        except AmqpError as error:
            self.fail(error)
