"""Messages and queues that expire."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def ttl_of_queue(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 1500})
    ch.publish("", "q", "short-lived")
    ch.passive("q")
    c.until_count("q", 0)
    ch.get("q")


@script
def ttl_zero_without_consumer(c: Context) -> None:
    """Gone at once when nobody takes it at once."""
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 0})
    ch.publish("", "q", "x")
    ch.passive("q")
    ch.get("q")


@script
def ttl_zero_with_consumer(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 0})
    ch.consume("q", "t", no_ack=True)
    ch.publish("", "q", "x")
    ch.read()


@script
def ttl_of_message(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "short-lived", expiration="100")
    c.until_count("q", 0)


@script
def ttl_of_message_zero(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", expiration="0")
    ch.passive("q")


@script
def ttl_smaller_wins(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 600000})
    ch.publish("", "q", "x", expiration="100")
    c.until_count("q", 0)


@script
def ttl_of_message_waits_behind_others(c: Context) -> None:
    """Only the head of a queue expires; a short-lived message behind a long-lived one stays counted."""
    ch = c.channel()
    ch.queue("q")
    ch.queue("clock", {"x-message-ttl": 400})
    ch.publish("", "q", "long-lived")
    ch.publish("", "q", "short-lived", expiration="100")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.passive("q")
    ch.get("q", no_ack=True)
    c.until_count("q", 0)
    ch.get("q", no_ack=True)


@script
def ttl_kept_on_requeue(c: Context) -> None:
    """A requeued message keeps its time."""
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 1500})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.nack(1, requeue=True)
    c.until_count("q", 0)
    ch.get("q")


@script
def ttl_expiration_is_delivered(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", expiration="60000")
    ch.get("q", no_ack=True)


for _name, _value in {
    "letters": "soon",
    "empty": "",
    "negative": "-1",
    "float": "1.5",
    "spaces": " 5",
    "huge": str(2**32),
    "beyond_timers": str(2**40),
    "plus": "+60000",
    "trailing": "5ms",
}.items():

    @script(name=f"expiration_{_name}")
    def _expiration(c: Context, value: str = _value) -> None:
        ch = c.channel()
        ch.queue("q")
        ch.publish("", "q", "x", expiration=value)
        ch.passive("q")


@script
def expiration_invalid_and_unroutable(c: Context) -> None:
    """Looked at before routing."""
    ch = c.channel()
    ch.publish("", "nowhere", "x", expiration="soon")
    c.settle()


@script
def expires_unused_queue(c: Context) -> None:
    """Looking at the queue would be use, so another one with a TTL is the clock."""
    ch = c.channel()
    ch.queue("q", {"x-expires": 300})
    ch.queue("clock", {"x-message-ttl": 900})
    ch.publish("", "q", "x")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.publish("", "q", "y", mandatory=True)
    c.settle()
    ch.passive("q")


@script
def expires_not_while_used(c: Context) -> None:
    """Declaring again and getting count as use; publishing does not."""
    ch = c.channel()
    ch.queue("declared", {"x-expires": 2500})
    ch.queue("gotten", {"x-expires": 2500})
    for _ in range(4):
        ch.queue("clock", {"x-message-ttl": 700})
        ch.publish("", "clock", "tick")
        c.until_count("clock", 0)
        ch.queue("declared", {"x-expires": 2500})
        ch.get("gotten")


@script
def expires_not_while_consumed(c: Context) -> None:
    """A consumer keeps the queue; it goes some time after the consumer."""
    ch = c.channel()
    ch.queue("clock", {"x-message-ttl": 4000})
    ch.queue("q", {"x-expires": 2000})
    ch.consume("q", "t")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.passive("q")
    ch.cancel("t")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.passive("q")
