"""Channel without a socket: carries out AMQP operations for HTTP clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mirrormq.broker.channel_states import CLOSING
from mirrormq.channels.channel import METHODS, Channel
from mirrormq.connections.direct_connection import DirectConnection
from mirrormq.errors import AmqpError, InternalError
from mirrormq.metadata.records import User
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames
from mirrormq.wire.fields import decode_entries, table_of
from mirrormq.wire.methods import decode_method, encode_basic_publish

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

ANSWER_TIMEOUT_S = 30.0
"""Seconds to wait for the reply to a declaration, or for a confirm, before the request fails."""


class InProcessChannel:
    """AMQP channel of one HTTP request. Implements `management.managed_node.DirectChannel`."""

    def __init__(self, broker: Broker, user: User, vhost: str, turn: Callable[[], None]) -> None:
        self._connection = DirectConnection(broker, user, vhost, self._on_method, self._failed)
        self._channel = Channel(self._connection, 1)
        self._channel.counters = self._channel.vhost.past
        self._turn = turn
        self._answer: asyncio.Future[None] | None = None
        self._awaited: frozenset[int] = frozenset()
        self._received: list[int] = []

    def _on_method(self, payload: bytes) -> None:
        method_id = int.from_bytes(payload[:4], "big")
        self._received.append(method_id)
        if method_id in self._awaited and self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    def _failed(self, error: AmqpError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    async def _request(self, request: bytes, *awaited: int) -> None:
        self._expect(*awaited)
        METHODS[int.from_bytes(request[:4], "big")](self._channel, decode_method(request))
        await self._answered()

    def _expect(self, *awaited: int) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self._awaited = frozenset(awaited)

    async def _answered(self) -> None:
        assert self._answer is not None
        self._turn()
        try:
            await asyncio.wait_for(self._answer, ANSWER_TIMEOUT_S)
        except TimeoutError:
            self._channel.state = CLOSING
            raise InternalError("the broker did not reply in time") from None

    async def declare_queue(
        self, name: str, *, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]
    ) -> None:
        request = methods.encode_queue_declare(
            name, durable=durable, auto_delete=auto_delete, arguments=table_of(arguments)
        )
        await self._request(request, methods.QUEUE_DECLARE_OK)

    async def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool) -> None:
        request = methods.encode_queue_delete(name, if_unused=if_unused, if_empty=if_empty)
        await self._request(request, methods.QUEUE_DELETE_OK)

    async def purge_queue(self, name: str) -> None:
        await self._request(methods.encode_queue_purge(name), methods.QUEUE_PURGE_OK)

    async def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, Any],
    ) -> None:
        request = methods.encode_exchange_declare(
            name,
            kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=table_of(arguments),
        )
        await self._request(request, methods.EXCHANGE_DECLARE_OK)

    async def delete_exchange(self, name: str, *, if_unused: bool) -> None:
        await self._request(
            methods.encode_exchange_delete(name, if_unused=if_unused), methods.EXCHANGE_DELETE_OK
        )

    async def bind(
        self, source: str, kind: str, destination: str, key: str, arguments: Mapping[str, Any]
    ) -> None:
        table = table_of(arguments)
        if kind == "queue":
            request = methods.encode_queue_bind(destination, source, key, arguments=table)
            await self._request(request, methods.QUEUE_BIND_OK)
        else:
            request = methods.encode_exchange_bind(destination, source, key, arguments=table)
            await self._request(request, methods.EXCHANGE_BIND_OK)

    async def unbind(self, source: str, kind: str, destination: str, key: str, arguments: bytes) -> None:
        table = decode_entries(arguments)
        if kind == "queue":
            request = methods.encode_queue_unbind(destination, source, key, arguments=table)
            await self._request(request, methods.QUEUE_UNBIND_OK)
        else:
            request = methods.encode_exchange_unbind(destination, source, key, arguments=table)
            await self._request(request, methods.EXCHANGE_UNBIND_OK)

    async def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> bool:
        await self._request(methods.encode_confirm_select(), methods.CONFIRM_SELECT_OK)
        self._expect(methods.BASIC_ACK, methods.BASIC_NACK)
        content = build_frames(1, properties, body, self._connection.frame_max)
        self._channel.publishes(encode_basic_publish(exchange, key, mandatory=True), properties, [content])
        await self._answered()
        return methods.BASIC_RETURN not in self._received and methods.BASIC_NACK not in self._received

    async def get(self, queue: str, count: int, mode: str, most_bytes: int) -> list[tuple[Message, int]]:
        channel = self._channel
        channel.check_permission("queue", queue, "read")
        source = channel.vhost.accessible_queue(queue, channel.connection)
        taken: list[tuple[Message, int]] = []
        at_once = mode == "ack_requeue_false"
        settle = source.requeue
        try:
            size = 0
            while len(taken) < count and size < most_bytes:
                message, left = await self._get_one(source, at_once)
                channel.counters.count_get(message, at_once)
                if message is None:
                    break
                size += message.body_size
                taken.append((message, left))
            copies = [(_copy(message), left) for message, left in taken]
            if mode == "reject_requeue_false":
                settle = source.reject
            return copies
        finally:
            # Until the copies exist `settle` is requeue: an error while reading returns every message to the
            # queue.
            if taken and not at_once:
                settle([message for message, _ in taken])
            self._turn()

    async def _get_one(self, queue: QueueInterface, no_ack: bool) -> tuple[Message | None, int]:
        got: asyncio.Future[tuple[Message | None, int]] = asyncio.get_running_loop().create_future()

        def answered(message: Message | None, left: int) -> bool:
            if got.done():
                return False
            got.set_result((message, left))
            return True

        def refused(error: AmqpError) -> None:
            if not got.done():
                got.set_exception(error)

        queue.get(no_ack, answered, refused)
        if not got.done():
            self._turn()
        try:
            return await asyncio.wait_for(got, ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise InternalError("the broker did not reply in time") from None


def _copy(message: Message) -> Message:
    """Copy the message as it was when delivered: a requeue marks the original as redelivered."""
    copy = Message(message.envelope, message.frames)
    copy.redelivered = message.redelivered
    return copy
