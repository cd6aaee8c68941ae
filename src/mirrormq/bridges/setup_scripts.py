"""Setup scripts that several kinds of links share."""

from __future__ import annotations

from mirrormq.bridges.link_plan import Setup, SetupFailed, required
from mirrormq.client.client_events import ChannelClosed
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
