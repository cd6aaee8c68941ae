"""Work that two brokers do equally, so that their counters can be compared.

Each piece of work has its own vhost, so that the vhost's totals are those of one piece. `counted` reads
all `message_stats` once the numbers have stopped changing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.management.http import Client, part

SETTLE_DEADLINE_S = 60.0
STILL_S = 8.0
"""Time for which numbers must stay unchanged; RabbitMQ collects them every second for this test."""
OFTEN = "collect_statistics_interval = 1000"

Body = Callable[["Worker"], None]
WORK: dict[str, Body] = {}


def work(body: Body) -> Body:
    WORK[body.__name__] = body
    return body


class Worker:
    """Context of a piece of work; its connections stay open until everything has been observed."""

    def __init__(self, amqp_port: int, client: Client, vhost: str) -> None:
        self._amqp_port = amqp_port
        self.client = client
        self.vhost = vhost
        self.connections: list[pika.BlockingConnection] = []
        self.last_consumer = ""

    def channel(self, *, confirms: bool = False) -> BlockingChannel:
        """Open a channel on a new connection."""
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self._amqp_port, self.vhost, heartbeat=600, blocked_connection_timeout=60
        )
        connection = pika.BlockingConnection(parameters)
        self.connections.append(connection)
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        return channel

    def queue(self, name: str = "q", **arguments: Any) -> str:
        answer = self.client.put(
            f"queues/{part(self.vhost)}/{name}", {"durable": True, "arguments": arguments}
        )
        assert answer.status == 201, answer
        return name

    def exchange(self, name: str, kind: str, **arguments: Any) -> str:
        path = f"exchanges/{part(self.vhost)}/{name}"
        assert self.client.put(path, {"type": kind, "arguments": arguments}).status == 201
        return name

    def bind(self, source: str, kind: str, destination: str, key: str = "") -> None:
        path = f"bindings/{part(self.vhost)}/e/{source}/{kind}/{destination}"
        assert self.client.post(path, {"routing_key": key}).status == 201

    def taken(self, channel: BlockingChannel, queue: str, count: int, **options: Any) -> list[int]:
        """Consume `count` messages and return their delivery tags."""
        tags: list[int] = []
        tag = channel.basic_consume(queue, lambda _, method, *__: tags.append(method.delivery_tag), **options)
        deadline = time.monotonic() + SETTLE_DEADLINE_S
        while len(tags) < count:
            assert time.monotonic() < deadline, f"{len(tags)} of {count} messages came"
            channel.connection.process_data_events(0.1)
        self.last_consumer = tag
        return tags

    def settle(self, channel: BlockingChannel) -> None:
        """Wait until the broker has processed everything sent on the channel."""
        channel.basic_qos(prefetch_count=0)


def publish(channel: BlockingChannel, count: int, exchange: str = "", key: str = "q", **more: Any) -> None:
    properties = more.pop("properties", None)
    for number in range(count):
        channel.basic_publish(exchange, key, b"%d" % number, properties, **more)


@work
def confirmed(worker: Worker) -> None:
    publish(worker.channel(confirms=True), 5, key=worker.queue())


@work
def unconfirmed(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 7, key=worker.queue())
    worker.settle(channel)


@work
def unroutable(worker: Worker) -> None:
    worker.exchange("lonely", "direct")
    channel = worker.channel()
    publish(channel, 2, "lonely", "nowhere")
    publish(channel, 3, "lonely", "nowhere", mandatory=True)
    worker.settle(channel)


@work
def unroutable_confirmed(worker: Worker) -> None:
    channel = worker.channel(confirms=True)
    publish(channel, 2, key="nowhere")
    with contextlib.suppress(pika.exceptions.UnroutableError):
        publish(channel, 1, key="nowhere", mandatory=True)


@work
def acknowledged(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 10, key=worker.queue())
    tags = worker.taken(channel, "q", 10)
    channel.basic_ack(tags[0])
    channel.basic_ack(tags[4], multiple=True)
    worker.settle(channel)


@work
def given_back(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 6, key=worker.queue())
    first = worker.channel()
    tags = worker.taken(first, "q", 6)
    first.basic_nack(tags[1], multiple=True, requeue=False)
    first.basic_reject(tags[2], requeue=False)
    first.basic_cancel(worker.last_consumer)
    first.basic_nack(tags[5], multiple=True, requeue=True)
    worker.taken(channel, "q", 3, auto_ack=True)


@work
def without_acknowledgement(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 4, key=worker.queue())
    worker.taken(channel, "q", 4, auto_ack=True)


@work
def got(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 4, key=worker.queue())
    for automatic in (False, False, True):
        assert channel.basic_get("q", auto_ack=automatic)[0] is not None
    channel.basic_nack(1, requeue=True)
    assert channel.basic_get("q", auto_ack=False)[0].redelivered
    channel.basic_ack(3 + 1)
    assert channel.basic_get("q", auto_ack=True)[0] is not None
    for automatic in (True, False, False):
        assert channel.basic_get("q", auto_ack=automatic)[0] is None


@work
def recovered(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 3, key=worker.queue())
    worker.taken(channel, "q", 3)
    channel.basic_cancel(worker.last_consumer)
    channel.basic_recover(requeue=True)
    worker.taken(channel, "q", 3)


@work
def channel_closed(worker: Worker) -> None:
    first, second = worker.channel(), worker.channel()
    publish(first, 3, key=worker.queue())
    worker.taken(first, "q", 3)
    first.close()
    worker.taken(second, "q", 3)
    second.basic_ack(0, multiple=True)
    worker.settle(second)


@work
def fanned_out(worker: Worker) -> None:
    worker.exchange("outer", "fanout")
    worker.exchange("inner", "fanout")
    worker.bind("outer", "e", "inner")
    for name in ("a", "b"):
        worker.bind("inner", "q", worker.queue(name))
    worker.bind("outer", "q", worker.queue("c"))
    publish(worker.channel(confirms=True), 3, "outer")


@work
def alternated(worker: Worker) -> None:
    worker.exchange("other", "fanout")
    worker.exchange("first", "direct", **{"alternate-exchange": "other"})
    worker.bind("other", "q", worker.queue())
    worker.exchange("vain", "direct", **{"alternate-exchange": "nobody"})
    channel = worker.channel()
    publish(channel, 3, "first", "x")
    publish(channel, 2, "vain", "x")
    worker.settle(channel)


@work
def copied_by_header(worker: Worker) -> None:
    worker.queue()
    worker.queue("copy")
    properties = pika.BasicProperties(headers={"CC": ["copy"], "BCC": ["nowhere"]})
    publish(worker.channel(confirms=True), 2, properties=properties)


@work
def dead_lettered(worker: Worker) -> None:
    worker.queue("dead")
    worker.queue(**{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    worker.queue(
        "short", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 1}
    )
    channel = worker.channel(confirms=True)
    publish(channel, 3)
    publish(channel, 3, key="short")
    channel.basic_nack(channel.basic_get("q")[0].delivery_tag, requeue=False)
    for _ in range(3):
        _await_message(worker, channel, "dead")


def _await_message(worker: Worker, channel: BlockingChannel, queue: str) -> None:
    """Wait for a dead letter; a passive look is not counted, unlike a get that finds nothing."""
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    while not channel.queue_declare(queue, passive=True).method.message_count:
        assert time.monotonic() < deadline
    assert channel.basic_get(queue, auto_ack=True)[0] is not None


@work
def refused_when_full(worker: Worker) -> None:
    worker.queue("q", **{"x-max-length": 2, "x-overflow": "reject-publish"})
    channel = worker.channel(confirms=True)
    for _ in range(4):
        with contextlib.suppress(pika.exceptions.NackError):
            publish(channel, 1)


@work
def in_transactions(worker: Worker) -> None:
    channel = worker.channel()
    publish(channel, 4, key=worker.queue())
    worker.settle(channel)
    channel.tx_select()
    publish(channel, 3)
    tags = [channel.basic_get("q")[0].delivery_tag for _ in range(3)]
    channel.basic_ack(tags[0])
    channel.basic_reject(tags[1], requeue=True)
    channel.tx_commit()
    publish(channel, 2)
    publish(channel, 2, key="nowhere")
    channel.basic_ack(tags[2])
    channel.tx_rollback()
    publish(channel, 1, key="nowhere", mandatory=True)
    channel.tx_commit()


@work
def through_the_api(worker: Worker) -> None:
    vhost = part(worker.vhost)
    worker.queue()
    message = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    for key in ("q", "q", "nowhere"):
        sent = worker.client.post(f"exchanges/{vhost}/amq.default/publish", {**message, "routing_key": key})
        assert sent.status == 200
    for mode in ("ack_requeue_true", "reject_requeue_true", "ack_requeue_false"):
        body = {"count": 1, "ackmode": mode, "encoding": "auto"}
        assert len(worker.client.post(f"queues/{vhost}/q/get", body).json) == 1
    empty = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert len(worker.client.post(f"queues/{vhost}/q/get", empty).json) == 1


@work
def queue_deleted(worker: Worker) -> None:
    channel = worker.channel(confirms=True)
    publish(channel, 3, key=worker.queue())
    worker.taken(channel, "q", 3)
    channel.queue_delete("q")
    publish(channel, 1, key="q")


@work
def purged(worker: Worker) -> None:
    channel = worker.channel(confirms=True)
    publish(channel, 3, key=worker.queue())
    channel.queue_purge("q")


@work
def expired(worker: Worker) -> None:
    channel = worker.channel(confirms=True)
    publish(channel, 3, key=worker.queue("q", **{"x-message-ttl": 1}))
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    while channel.queue_declare("q", passive=True).method.message_count:
        assert time.monotonic() < deadline


@work
def answered_directly(worker: Worker) -> None:
    worker.queue()
    asking, answering = worker.channel(), worker.channel()
    replies: list[bytes] = []
    asking.basic_consume("amq.rabbitmq.reply-to", lambda *all_: replies.append(all_[3]), auto_ack=True)
    publish(asking, 1, properties=pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    worker.settle(asking)
    _, properties, _ = answering.basic_get("q", auto_ack=True)
    publish(answering, 1, key=properties.reply_to)
    worker.settle(answering)
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    while not replies:
        assert time.monotonic() < deadline
        asking.connection.process_data_events(0.1)


@work
def traced(worker: Worker) -> None:
    worker.queue()
    worker.queue("trace")
    worker.bind("amq.rabbitmq.trace", "q", "trace", "#")
    assert worker.client.put(f"vhosts/{part(worker.vhost)}", {"tracing": True}).status == 204
    channel = worker.channel(confirms=True)
    publish(channel, 2)
    worker.taken(channel, "q", 2)
    worker.settle(channel)


def observe(amqp_port: int, management_port: int) -> dict[str, Any]:
    """Do all the work and return the counters."""
    client = Client(management_port)
    workers: list[Worker] = []
    for name, body in WORK.items():
        assert client.put(f"vhosts/{name}", {}).status == 201
        workers.append(Worker(amqp_port, client, name))
        body(workers[-1])
    with _kept_alive(workers):
        return _still(client)


@contextlib.contextmanager
def _kept_alive(workers: list[Worker]) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            for connection in worker.connections:
                if connection.is_open:
                    connection.close()


def _still(client: Client) -> dict[str, Any]:
    """Return the numbers when they have stopped changing."""
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    before, since = counted(client), time.monotonic()
    while time.monotonic() - since < STILL_S:
        assert time.monotonic() < deadline, "the numbers never stood still"
        time.sleep(0.5)
        now = counted(client)
        if now != before:
            before, since = now, time.monotonic()
    return before


def counted(client: Client) -> dict[str, Any]:
    """Return all message statistics by kind and name, without rates and without zeros."""
    found: dict[str, Any] = {}
    for kind in ("vhosts", "exchanges", "queues"):
        for row in client.get(kind):
            name = row["name"] if kind == "vhosts" else f"{row['vhost']}/{row['name']}"
            found[f"{kind} {name}"] = plain(row.get("message_stats", {}))
    channels: dict[str, list[dict[str, int]]] = {}
    for row in client.get("channels"):
        channels.setdefault(f"channels {row['vhost']}", []).append(plain(row.get("message_stats", {})))
    found |= {name: sorted(rows, key=lambda row: sorted(row.items())) for name, rows in channels.items()}
    return found


def plain(statistics: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in statistics.items() if isinstance(value, int) and value}
