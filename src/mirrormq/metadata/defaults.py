"""Predeclared exchanges of a vhost, which every AMQP client may rely on."""

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
    """Return the exchanges of a new vhost, as RabbitMQ declares them: durable, never auto-deleted."""
    exchanges = [Exchange(vhost=vhost, name=name, kind=kind) for name, kind in _PREDECLARED]
    exchanges.append(Exchange(vhost=vhost, name=TRACE_EXCHANGE, kind="topic", internal=True))
    return exchanges
