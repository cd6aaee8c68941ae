"""Content assembly: builds a publish from its frames when the scanner could not take it whole.

    idle --basic.publish--> header --content header--> body --body frames--> idle

Any other frame in between is an unexpected frame, and closes the connection.

A body may arrive in any number of frames, including empty ones. Full frames are kept as they are and joined
once, with their headers, when the body is complete. All other frames are joined on arrival and split again to
the frame size of the connection, so a body in frames of one byte costs no more than the same body in one
frame. `max_message_size` bounds the collected bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.errors import AmqpError, PreconditionFailed, UnexpectedFrame
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, content_of_pieces
from mirrormq.wire.frame_errors import unreadable_frame
from mirrormq.wire.frames import BODY, FRAME_OVERHEAD, HEADER, METHOD

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

_PUBLISH_IDS = methods.BASIC_PUBLISH.to_bytes(4, "big")
_HEADER_HEAD_SIZE = 12
"""Size of class id, weight, body size."""
BASIC_CLASS = 60


class ContentAssembly:
    """Incomplete publish of a channel, if there is one."""

    __slots__ = ("_channel", "_header", "_missing", "_oversized", "_pieces", "_publish", "_size")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._publish: bytes | None = None
        self._header: bytes | None = None
        self._pieces: list[bytes | bytearray] = []
        """Body so far: full frames, then at most one piece that collects the frames behind them."""
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
        self._collect(payload)
        if not self._missing:
            self._complete()

    def _collect(self, payload: bytes) -> None:
        if not payload:
            return
        pieces = self._pieces
        full = self._channel.connection.frame_max - FRAME_OVERHEAD
        last = pieces[-1] if pieces else None
        if last is None or len(last) == full:
            pieces.append(payload)
        elif isinstance(last, bytearray):
            last += payload
        else:
            pieces[-1] = bytearray(last) + payload

    def _complete(self) -> None:
        publish, header, pieces = self._publish, self._header, self._pieces
        assert publish is not None and header is not None
        properties = header[_HEADER_HEAD_SIZE:]
        self._reset()
        channel = self._channel
        frame_max = channel.connection.frame_max
        if not frame_max or len(pieces) == 1 or (pieces and len(pieces[-1]) + FRAME_OVERHEAD > frame_max):
            content = build_frames(channel.number, properties, b"".join(pieces), frame_max)
        else:
            content = content_of_pieces(channel.number, properties, pieces)
        channel.publishes(publish, properties, [content])

    def _reset(self) -> None:
        self._publish = self._header = None
        self._pieces = []
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
