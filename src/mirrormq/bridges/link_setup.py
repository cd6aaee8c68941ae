"""Setup of a link: scripts that several kinds of links share, and the run of a script on one connection."""

from __future__ import annotations

from typing import Generic, TypeVar

from mirrormq.bridges.link_plan import Setup, SetupFailed, required
from mirrormq.client.client_channel import ChannelState, ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import ChannelClosed, Event, MethodReply
from mirrormq.wire import methods
from mirrormq.wire.fields import Table

NOT_FOUND_CODE = 404


def declared_queue(name: str, arguments: Table) -> Setup[methods.QueueDeclareOk]:
    """Look a queue up; declare it durable if it does not exist, as RabbitMQ's shovel does."""
    reply = yield methods.encode_queue_declare(name, passive=True)
    if isinstance(reply, ChannelClosed):
        if reply.code != NOT_FOUND_CODE:
            raise SetupFailed(reply.text)
        request = methods.encode_queue_declare(name, durable=True, arguments=arguments)
        reply = yield from required(request)
    assert isinstance(reply.method, methods.QueueDeclareOk)
    return reply.method


def existing_queue(name: str) -> Setup[methods.QueueDeclareOk]:
    """Look up a queue that must exist."""
    reply = yield from required(methods.encode_queue_declare(name, passive=True))
    assert isinstance(reply.method, methods.QueueDeclareOk)
    return reply.method


def bound_exclusive_queue(exchange: str, routing_key: str) -> Setup[methods.QueueDeclareOk]:
    """Declare an exclusive queue with a generated name, and bind it."""
    reply = yield from required(methods.encode_queue_declare(exclusive=True))
    declared = reply.method
    assert isinstance(declared, methods.QueueDeclareOk)
    yield from required(methods.encode_queue_bind(declared.queue, exchange, routing_key))
    return declared


T = TypeVar("T")


class SetupRun(Generic[T]):
    """Setup script under way: one request at a time, a new channel after each refusal. `finished` turns true
    with its `result`."""

    def __init__(self, connection: ClientConnection, script: Setup[T]) -> None:
        self._connection = connection
        self._script = script
        self.channel = connection.open_channel()
        self.finished = False
        self.result: T | None = None
        self._advance(None)

    def handle(self, event: Event) -> None:
        """Pass a reply to the script; raises SetupFailed."""
        if not isinstance(event, MethodReply | ChannelClosed) or event.channel != self.channel.number:
            return
        self._advance(event)

    def _advance(self, reply: MethodReply | ChannelClosed | None) -> None:
        try:
            request = next(self._script) if reply is None else self._script.send(reply)
        except StopIteration as stop:
            self.finished, self.result = True, stop.value
            return
        channel = self.open()
        for each in request if isinstance(request, tuple) else (request,):
            channel.request(each)

    def open(self) -> ClientChannel:
        """Return the open channel, a new one if the broker closed the last."""
        if self.channel.state is not ChannelState.OPEN:
            self.channel = self._connection.open_channel()
        return self.channel
