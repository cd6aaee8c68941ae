"""Publish ten persistent messages with confirms and consume them again, with pika.

python examples/publish_and_consume.py [URI]
"""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties
from place import broker

QUEUE = "orders"
COUNT = 10


def main(uri: str) -> None:
    """Publish and consume on one connection."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    for number in range(COUNT):
        # Returns when the broker has the message on disk; raises if it could not be routed.
        channel.basic_publish(
            "", QUEUE, f"order {number}".encode(), BasicProperties(delivery_mode=2), mandatory=True
        )
    print(f"published {COUNT} messages, all confirmed")

    def handle(
        channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        print(f"received {body.decode()}")
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == COUNT:
            channel.stop_consuming()

    channel.basic_qos(prefetch_count=5)
    channel.basic_consume(QUEUE, handle)
    channel.start_consuming()
    connection.close()


if __name__ == "__main__":
    with broker() as uri:
        main(uri)
