"""The firehose: amq.rabbitmq.trace. RabbitMQ may forget one of two vhosts whose tracing is switched on at
once, so these run alone."""

from __future__ import annotations

from tests.differential.client import Channel
from tests.differential.context import Context
from tests.differential.runner import script


def watch(c: Context, key: str = "#") -> Channel:
    """A consumer of the trace exchange on a connection of its own, with tracing switched on."""
    observer = c.channel(c.connect())
    observer.queue("traces")
    observer.bind("traces", "amq.rabbitmq.trace", key)
    c.admin.trace_on()
    return observer


@script(alone=True)
def trace_publish(c: Context) -> None:
    observer = watch(c, "publish.#")
    ch = c.channel()
    ch.publish("amq.direct", "k", "body", headers={"a": 1}, message_id="m")
    c.until_count("traces", 1)
    observer.get("traces", no_ack=True)


@script(alone=True)
def trace_deliver(c: Context) -> None:
    observer = watch(c, "deliver.#")
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "body")
    ch.get("q", no_ack=True)
    c.until_count("traces", 1)
    observer.get("traces", no_ack=True)


@script(alone=True)
def trace_deliver_to_consumer(c: Context) -> None:
    observer = watch(c, "deliver.#")
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.publish("", "q", "body", content_type="text/plain")
    ch.read()
    ch.reject(1, requeue=True)
    ch.read()
    c.until_count("traces", 2)
    observer.get("traces", no_ack=True)
    observer.get("traces", no_ack=True)


@script(alone=True)
def trace_publish_default_exchange(c: Context) -> None:
    observer = watch(c, "publish.#")
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "body")
    c.until_count("traces", 1)
    observer.get("traces", no_ack=True)


@script(alone=True)
def trace_publish_unroutable(c: Context) -> None:
    observer = watch(c, "publish.#")
    ch = c.channel()
    ch.publish("amq.topic", "nobody", "x", mandatory=True)
    ch.read()
    c.until_count("traces", 1)
    observer.get("traces", no_ack=True)


@script(alone=True)
def trace_off(c: Context) -> None:
    observer = watch(c)
    c.admin.trace_off()
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "body")
    ch.get("q", no_ack=True)
    observer.get("traces")


@script(alone=True)
def trace_exchange_is_internal(c: Context) -> None:
    ch = c.channel()
    ch.publish("amq.rabbitmq.trace", "k", "x")
    ch.read()
