"""Messages in the queues of real brokers, over AMQP with pika."""

from __future__ import annotations

from typing import Any

import pika

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connected(port: int, vhost: str = "/") -> pika.BlockingConnection:
    """Open a connection as guest."""
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, vhost, heartbeat=0))


def publish(port: int, queue: str, bodies: list[str], vhost: str = "/", exchange: str = "") -> None:
    """Publish persistent messages with confirms; a queue is declared durable first."""
    connection = connected(port, vhost)
    channel = connection.channel()
    if not exchange:
        channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish(exchange, queue, body.encode(), PERSISTENT, mandatory=not exchange)
    connection.close()


def drain(port: int, queue: str, vhost: str = "/") -> list[tuple[str, Any]]:
    """Take all ready messages of a queue: body and properties of each."""
    connection = connected(port, vhost)
    channel = connection.channel()
    taken = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            break
        taken.append((body.decode(), properties))
    connection.close()
    return taken


def ready(port: int, queue: str, vhost: str = "/") -> int:
    """Return the number of ready messages."""
    connection = connected(port, vhost)
    count = connection.channel().queue_declare(queue, passive=True).method.message_count
    connection.close()
    return int(count)
