"""What a vhost is born with: the exchanges that every AMQP client may count on."""

from __future__ import annotations

from mirrormq.metadata.records import Exchange

DEFAULT_VHOST = "/"
DEFAULT_VHOST_DESCRIPTION = "Default virtual host"
TRACE_EXCHANGE = "amq.rabbitmq.trace"

_PREDECLARED = (
    ("", "direct"),
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    ("amq.topic", "topic"),
)


def predeclared_exchanges(vhost: str) -> list[Exchange]:
    """The exchanges of a new vhost, as RabbitMQ declares them: durable, never auto-deleted."""
    found = [Exchange(vhost=vhost, name=name, kind=kind) for name, kind in _PREDECLARED]
    found.append(Exchange(vhost=vhost, name=TRACE_EXCHANGE, kind="topic", internal=True))
    return found
