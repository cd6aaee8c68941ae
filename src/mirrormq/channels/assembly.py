"""Content assembly: builds a publish from its frames when the scanner could not take it whole.

    idle --basic.publish--> header --content header--> body --body frames--> idle

Any other frame in between is an unexpected frame, and closes the connection.

A body may arrive in any number of frames, including empty ones. They are joined on arrival and split again
to the frame size of the connection. A body in frames of one byte therefore costs no more than the same
body in one frame. `max_message_size` bounds the collected bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.errors import AmqpError, PreconditionFailed, UnexpectedFrame
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames
from mirrormq.wire.frame_errors import unreadable_frame
from mirrormq.wire.frames import BODY, HEADER, METHOD

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

_PUBLISH_IDS = methods.BASIC_PUBLISH.to_bytes(4, "big")
_HEADER_HEAD_SIZE = 12
"""Size of class id, weight, body size."""
BASIC_CLASS = 60


class ContentAssembly:
    """Incomplete publish of a channel, if there is one."""

    __slots__ = ("_body", "_channel", "_header", "_missing", "_oversized", "_publish", "_size")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._publish: bytes | None = None
        self._header: bytes | None = None
        self._body: bytes | bytearray = b""
        self._missing = 0
        self._size = 0
        self._oversized = False
        """The last message was refused for its size: body frames that the client sends meanwhile are
        dropped."""

    @property
    def expecting_content(self) -> bool:
        """Whether a publish has begun whose content is incomplete."""
        return self._publish is not None

    def frame(self, kind: int, payload: bytes) -> None:
        """Process the next frame of the channel."""
        if kind == METHOD:
            self._method(payload)
        elif kind == HEADER:
            self._content_header(payload)
        elif kind == BODY:
            self._content_body(payload)

    def _method(self, payload: bytes) -> None:
        self._oversized = False
        if self._publish is not None:
            raise self._unexpected()
        if payload[:4] == _PUBLISH_IDS:
            methods.decode_basic_publish(payload)
            self._publish = payload
            return
        method_id = int.from_bytes(payload[:4], "big")
        try:
            self._channel.method(method_id, payload)
        except AmqpError as error:
            raise error.at(method_id) from None

    def _content_header(self, payload: bytes) -> None:
        if len(payload) < _HEADER_HEAD_SIZE + 2:
            raise unreadable_frame(HEADER, payload)
        class_id, weight = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        if self._publish is None or self._header is not None or weight:
            raise self._unexpected()
        if class_id != BASIC_CLASS:
            raise self._unexpected(
                f"expected content header for class 60, got one for class {class_id} instead"
            )
        self._size = self._missing = int.from_bytes(payload[4:12], "big")
        limit = self._channel.broker.settings.max_message_size
        if limit and self._size > limit and not self._channel.closing:
            too_large = PreconditionFailed(
                f"message size {self._size} is larger than configured max size {limit}"
            )
            too_large.class_id, too_large.method_id = BASIC_CLASS, methods.BASIC_PUBLISH & 0xFFFF
            self._reset()
            self._oversized = True
            raise too_large
        self._header = payload
        if not self._missing:
            self._complete()

    def _content_body(self, payload: bytes) -> None:
        if self._oversized:
            return
        if self._publish is None or self._header is None:
            raise self._unexpected()
        self._missing -= len(payload)
        if self._missing < 0:
            raise self._unexpected()
        if not self._body:
            self._body = payload
        elif isinstance(self._body, bytearray):
            self._body += payload
        else:
            self._body = bytearray(self._body) + payload
        if not self._missing:
            self._complete()

    def _complete(self) -> None:
        publish, header = self._publish, self._header
        assert publish is not None and header is not None
        properties, body = header[_HEADER_HEAD_SIZE:], bytes(self._body)
        self._reset()
        channel = self._channel
        content = build_frames(channel.number, properties, body, channel.connection.frame_max)
        channel.publishes(publish, properties, [content])

    def _reset(self) -> None:
        self._publish = self._header = None
        self._body = b""
        self._missing = 0

    def _unexpected(self, text: str = "") -> UnexpectedFrame:
        publishing = self._publish is not None
        if not text:
            text = "expected method frame, got non method frame instead"
            if publishing and self._header is None:
                text = "expected content header for class 60, got non content header frame instead"
            elif publishing:
                text = "expected content body, got non content body frame instead"
        self._reset()
        return UnexpectedFrame(
            text,
            class_id=BASIC_CLASS if publishing else 0,
            method_id=methods.BASIC_PUBLISH & 0xFFFF if publishing else 0,
        )
