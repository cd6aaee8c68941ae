"""Topic fan-out: each subscriber binds its own queue and receives the events that match its pattern.

python examples/topic_fanout.py [URI]
"""

from __future__ import annotations

import pika
from place import broker

EXCHANGE = "events"
SUBSCRIBERS = {"billing": "order.*.paid", "warehouse": "order.#", "europe": "*.eu.*"}
EVENTS = ("order.eu.placed", "order.eu.paid", "order.us.paid", "user.eu.created")


def main() -> None:
    with broker() as uri:
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        for name, pattern in SUBSCRIBERS.items():
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, EXCHANGE, pattern)
        channel.confirm_delivery()
        for event in EVENTS:
            # With confirms and mandatory, an event without a matching queue raises UnroutableError here.
            channel.basic_publish(EXCHANGE, event, event.encode(), mandatory=True)
        for name, pattern in SUBSCRIBERS.items():
            received = []
            while (found := channel.basic_get(name, auto_ack=True))[0] is not None:
                received.append(found[2].decode())
            print(f"{name} ({pattern}): {', '.join(received)}")
        connection.close()


if __name__ == "__main__":
    main()
