"""Channel of a client connection: requests and replies, publishing, contents."""

from __future__ import annotations

import struct
from collections import deque
from enum import Enum, auto
from typing import Protocol

from mirrormq.client.client_events import (
    ChannelClosed,
    ChannelOpened,
    ClientFault,
    CloseReason,
    Confirm,
    ConsumerCancelled,
    Delivery,
    Event,
    FlowChanged,
    GetReply,
    MethodReply,
    Returned,
)
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEADER, METHOD

ANSWERS: dict[int, tuple[int, ...]] = {
    methods.CHANNEL_OPEN: (methods.CHANNEL_OPEN_OK,),
    methods.EXCHANGE_DECLARE: (methods.EXCHANGE_DECLARE_OK,),
    methods.EXCHANGE_DELETE: (methods.EXCHANGE_DELETE_OK,),
    methods.EXCHANGE_BIND: (methods.EXCHANGE_BIND_OK,),
    methods.EXCHANGE_UNBIND: (methods.EXCHANGE_UNBIND_OK,),
    methods.QUEUE_DECLARE: (methods.QUEUE_DECLARE_OK,),
    methods.QUEUE_BIND: (methods.QUEUE_BIND_OK,),
    methods.QUEUE_PURGE: (methods.QUEUE_PURGE_OK,),
    methods.QUEUE_DELETE: (methods.QUEUE_DELETE_OK,),
    methods.QUEUE_UNBIND: (methods.QUEUE_UNBIND_OK,),
    methods.BASIC_QOS: (methods.BASIC_QOS_OK,),
    methods.BASIC_CONSUME: (methods.BASIC_CONSUME_OK,),
    methods.BASIC_CANCEL: (methods.BASIC_CANCEL_OK,),
    methods.BASIC_GET: (methods.BASIC_GET_OK, methods.BASIC_GET_EMPTY),
    methods.BASIC_RECOVER: (methods.BASIC_RECOVER_OK,),
    methods.CONFIRM_SELECT: (methods.CONFIRM_SELECT_OK,),
    methods.TX_SELECT: (methods.TX_SELECT_OK,),
    methods.TX_COMMIT: (methods.TX_COMMIT_OK,),
    methods.TX_ROLLBACK: (methods.TX_ROLLBACK_OK,),
}
"""Request methods → the methods that reply to them."""

_CONTENT_METHODS = (methods.BASIC_DELIVER, methods.BASIC_GET_OK, methods.BASIC_RETURN)
_HEADER = struct.Struct(">HHQ")
_HEADER_BYTES_MIN = 14
_BASIC_CLASS = 60
_CLOSE_CODE = 200
_FRAME_END = bytes((FRAME_END,))


class ChannelState(Enum):
    """State of a channel as its client sees it."""

    OPEN = auto()
    """Also before channel.open-ok arrives: a client may pipeline requests."""
    CLOSING = auto()
    CLOSED = auto()


class ChannelOwner(Protocol):
    """Connection of a channel."""

    frame_max: int
    events: list[Event]

    def send(self, data: bytes) -> None:
        """Append to the output."""

    def channel_ended(self, number: int) -> None:
        """Free the channel number for reuse."""


class PartialContent:
    """Content with missing header or body frames."""

    __slots__ = ("body", "body_bytes_missing", "method", "properties")

    def __init__(self, method: methods.Method) -> None:
        self.method = method
        self.properties: bytes | None = None
        self.body_bytes_missing = 0
        self.body: bytes | bytearray = b""

    def add(self, payload: bytes | memoryview) -> None:
        """Append a body frame."""
        # Copy at once: the next read reuses the memory, which costs less than new memory, and a broker that
        # sends a body in single octets does not cost an object for each.
        if self.body:
            self.body = self.body if isinstance(self.body, bytearray) else bytearray(self.body)
            self.body += payload
        else:
            self.body = bytes(payload)
        self.body_bytes_missing -= len(payload)


class ClientChannel:
    """Channel; `ClientConnection.open_channel` creates it."""

    def __init__(self, owner: ChannelOwner, number: int, body_bytes_max: int) -> None:
        self.number = number
        self.state = ChannelState.OPEN
        self.flow_active = True
        """False: the broker stopped publishes (channel.flow)."""
        self.published_count = 0
        """Messages since confirm.select; equals the delivery tag of the last one in confirms."""
        self._confirming = False
        self._owner = owner
        self._body_bytes_max = body_bytes_max
        self._expected: deque[tuple[int, ...]] = deque()
        """Replies that the broker owes, oldest first."""
        self._content: PartialContent | None = None
        self._publish_for: tuple[str, str, bool] | None = None
        self._publish_frame = b""
        self._front_for: tuple[bytes, int] | None = None
        self._front = b""
        """Frames before the body of a message with this target, these properties and this size."""
        self.request(methods.encode_channel_open())

    # -- sending --------------------------------------------------------------------------------

    @property
    def awaited_count(self) -> int:
        """Number of requests without a reply."""
        return len(self._expected)

    def request(self, payload: bytes) -> None:
        """Send any method; a MethodReply event brings its reply, if it has one. Requests may be pipelined."""
        method_id = int.from_bytes(payload[:4], "big")
        answers = ANSWERS.get(method_id)
        if answers is not None and not getattr(methods.decode_method(payload), "nowait", False):
            self._expected.append(answers)
        if method_id == methods.CONFIRM_SELECT:
            self._confirming = True
        self._send(payload)

    def _send(self, payload: bytes) -> None:
        self._owner.send(method_frame(self.number, payload))

    def publish(
        self,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes | bytearray,
        *,
        mandatory: bool = False,
    ) -> int:
        """Publish; return the delivery tag that will confirm the message, 0 without confirms.

        `properties` are encoded, from the flags on.
        """
        target = (exchange, routing_key, mandatory)
        if target != self._publish_for:
            payload = methods.encode_basic_publish(exchange, routing_key, mandatory)
            self._publish_for, self._publish_frame = target, method_frame(self.number, payload)
            self._front_for = None
        # Consecutive messages mostly differ in their bodies only.
        shape = (properties, len(body))
        if shape != self._front_for:
            content = build_frames(self.number, properties, body, self._owner.frame_max)
            if not body or len(body) > self._owner.frame_max - FRAME_OVERHEAD:
                return self.publish_frames(self._publish_frame + content, 1)
            self._front_for = shape
            self._front = self._publish_frame + content[: -len(body) - 1]
        return self.publish_frames(self._front + body + _FRAME_END, 1)

    def publish_frames(self, data: bytes, count: int) -> int:
        """Send `count` messages that are already encoded as frames; return the delivery tag of the last
        one."""
        self._owner.send(data)
        if not self._confirming:
            return 0
        self.published_count += count
        return self.published_count

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        """Acknowledge a delivery, or all up to it."""
        self._send(methods.encode_basic_ack(delivery_tag, multiple))

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Refuse a delivery, or all up to it."""
        self._send(methods.encode_basic_nack(delivery_tag, multiple, requeue))

    def close(self, text: str = "done") -> None:
        """Close; ChannelClosed follows when the broker has handled everything sent before."""
        if self.state is ChannelState.OPEN:
            self.state = ChannelState.CLOSING
            self._content = None
            self._send(methods.encode_channel_close(_CLOSE_CODE, text, 0, 0))

    # -- receiving ------------------------------------------------------------------------------

    @property
    def expects_method(self) -> bool:
        """Whether deliveries and confirms may arrive now."""
        return self._content is None and self.state is ChannelState.OPEN

    def frame(self, kind: int, payload: bytes | memoryview) -> None:
        """Handle a frame of this channel; raises ClientFault."""
        if kind == METHOD:
            self._method(bytes(payload))
        elif self.state is ChannelState.CLOSING:
            return  # contents sent before the broker read channel.close
        elif self._content is None:
            raise ClientFault(
                CloseReason.PROTOCOL_ERROR,
                f"the broker sent a content without a method on channel {self.number}",
            )
        elif kind == HEADER:
            self._header(self._content, bytes(payload))
        elif kind == BODY:
            self._body(self._content, payload)

    def _method(self, payload: bytes) -> None:
        method_id = int.from_bytes(payload[:4], "big")
        if self._content is not None:
            raise self._unexpected(method_id, "in the middle of a content")
        if self.state is ChannelState.CLOSING and method_id not in (
            methods.CHANNEL_CLOSE,
            methods.CHANNEL_CLOSE_OK,
        ):
            return
        method = methods.decode_method(payload)
        if method_id in _CONTENT_METHODS:
            if method_id == methods.BASIC_GET_OK:
                self._answered(method_id)
            self._content = PartialContent(method)
            return
        self._simple(method_id, method)

    def _simple(self, method_id: int, method: methods.Method) -> None:
        events, number = self._owner.events, self.number
        match method:
            case methods.BasicAck():
                events.append(Confirm(number, method.delivery_tag, method.multiple, True))
            case methods.BasicNack():
                events.append(Confirm(number, method.delivery_tag, method.multiple, False))
            case methods.BasicCancel():
                events.append(ConsumerCancelled(number, method.consumer_tag))
            case methods.ChannelFlow():
                self.flow_active = method.active
                self._send(methods.encode_channel_flow_ok(method.active))
                events.append(FlowChanged(number, method.active))
            case methods.ChannelClose():
                self._send(methods.encode_channel_close_ok())
                self._ended(ChannelClosed(number, *method))
            case methods.ChannelCloseOk() if self.state is ChannelState.CLOSING:
                self._ended(ChannelClosed(number, 0, "closed by the client"))
            case methods.ChannelOpenOk():
                self._answered(method_id)
                events.append(ChannelOpened(number))
            case _:
                self._answered(method_id)
                events.append(MethodReply(number, method))

    def _ended(self, event: ChannelClosed) -> None:
        self.state = ChannelState.CLOSED
        self._expected.clear()
        self._owner.events.append(event)
        self._owner.channel_ended(self.number)

    def _answered(self, method_id: int) -> None:
        if not self._expected or method_id not in self._expected[0]:
            raise self._unexpected(method_id, "as an answer to nothing")
        self._expected.popleft()

    def _unexpected(self, method_id: int, where: str) -> ClientFault:
        name = methods.METHOD_NAMES.get(method_id, f"method {method_id:#x}")
        text = f"the broker sent {name} {where} on channel {self.number}"
        return ClientFault(CloseReason.PROTOCOL_ERROR, text)

    def _header(self, content: PartialContent, payload: bytes) -> None:
        if content.properties is not None or len(payload) < _HEADER_BYTES_MIN:
            raise ClientFault(
                CloseReason.PROTOCOL_ERROR, "the broker sent a content header that cannot be right"
            )
        class_id, _weight, body_bytes = _HEADER.unpack_from(payload)
        if class_id != _BASIC_CLASS:
            raise ClientFault(CloseReason.PROTOCOL_ERROR, f"the broker sent a content of class {class_id}")
        if body_bytes > self._body_bytes_max:
            text = f"the broker sent a message of {body_bytes} bytes, {self._body_bytes_max} are allowed"
            raise ClientFault(CloseReason.BODY_TOO_LARGE, text)
        content.properties = payload[_HEADER.size :]
        content.body_bytes_missing = body_bytes
        if not body_bytes:
            self._complete(content)

    def _body(self, content: PartialContent, payload: bytes | memoryview) -> None:
        if content.properties is None or len(payload) > content.body_bytes_missing:
            raise ClientFault(CloseReason.PROTOCOL_ERROR, "the broker sent more body than it announced")
        content.add(payload)
        if not content.body_bytes_missing:
            self._complete(content)

    def _complete(self, content: PartialContent) -> None:
        self._content = None
        properties, body = content.properties or b"", content.body
        method, number = content.method, self.number
        event: Event
        match method:
            case methods.BasicDeliver():
                event = Delivery(number, *method, properties, body)
            case methods.BasicGetOk():
                event = GetReply(number, *method, properties, body)
            case methods.BasicReturn():
                event = Returned(number, *method, properties, body)
            case _:  # pragma: no cover - no other method has a content
                raise AssertionError(method)
        self._owner.events.append(event)
