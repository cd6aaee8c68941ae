"""RPC with direct reply-to: requests go to a queue, replies need no queue.

python examples/rpc.py [URI]
"""

from __future__ import annotations

import threading

import pika
from place import broker

REPLY_TO = "amq.rabbitmq.reply-to"
QUEUE = "rpc.square"
WAIT_S = 10


def serve(uri: str, ready: threading.Event, calls: int) -> None:
    """Reply to `calls` requests with the square of a number."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare(QUEUE)
    ready.set()
    for method, properties, body in channel.consume(QUEUE):
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, str(int(body) ** 2).encode(), answer)
        channel.basic_ack(method.delivery_tag)
        calls -= 1
        if not calls:
            break
    connection.close()


def call(channel: pika.adapters.blocking_connection.BlockingChannel, number: int) -> int:
    """Send one request and wait for its reply, which has the same correlation id."""
    sent = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=str(number))
    # The consumer of replies must exist before the request is sent, on the same channel.
    replies = channel.consume(REPLY_TO, auto_ack=True, inactivity_timeout=WAIT_S)
    channel.basic_publish("", QUEUE, str(number).encode(), sent, mandatory=True)
    for method, properties, body in replies:
        if method is None:
            raise TimeoutError(f"no reply within {WAIT_S} seconds")
        if properties.correlation_id == str(number):
            return int(body)
    raise ConnectionError("the broker cancelled the consumer of replies")


def main() -> None:
    numbers = range(1, 6)
    with broker() as uri:
        ready = threading.Event()
        server = threading.Thread(target=serve, args=(uri, ready, len(numbers)))
        server.start()
        ready.wait(WAIT_S)
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        # pika starts a consumer with the first step of this generator; one step without a message does that.
        next(channel.consume(REPLY_TO, auto_ack=True, inactivity_timeout=0.01))
        for number in numbers:
            print(f"{number} squared is {call(channel, number)}")
        server.join()
        connection.close()


if __name__ == "__main__":
    main()
