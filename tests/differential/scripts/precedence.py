"""Of several mistakes one is told, of several things to say one comes first (found by random talk)."""

from __future__ import annotations

from typing import Any

from tests.differential.codec import Typed
from tests.differential.context import Context
from tests.differential.runner import script

REPLY_TO = "amq.rabbitmq.reply-to"


@script
def precedence_of_publish_mistakes(c: Context) -> None:
    """The reply's address, the user, the expiration, the keys in headers, the delivery mode."""
    mistakes: dict[str, Any] = {
        "reply_to": REPLY_TO,
        "user_id": "somebody",
        "expiration": "soon",
        "headers": {"BCC": 5, "CC": "k"},
        "delivery_mode": 3,
    }
    while mistakes:
        ch = c.channel()
        ch.publish("", "q", "x", **mistakes)
        ch.read()
        del mistakes[next(iter(mistakes))]


@script
def precedence_of_publish_mistakes_in_a_row(c: Context) -> None:
    """Mistakes behind valid publishes, all read at once."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "a", message_id="1")
    ch.publish("", "q", "b", message_id="2")
    ch.publish("", "q", "c", expiration="soon", delivery_mode=0)
    ch.read()
    c.until_count("q", 2)


@script
def precedence_of_queue_arguments(c: Context) -> None:
    """The dead letter exchange's type, the queue's type, values, keys of other types."""
    tries: tuple[dict[str, Any], ...] = (
        {"x-queue-type": "nonsense", "x-dead-letter-exchange": 5, "x-expires": 0},
        {"x-delivery-limit": 3, "x-expires": 0, "x-queue-type": "nonsense"},
        {"x-delivery-limit": 3, "x-overflow": "nonsense", "x-expires": 0},
        {"x-max-age": "1D", "x-delivery-limit": 3},
        {"x-delivery-limit": 3, "x-max-age": "1D"},
        {"x-queue-master-locator": "nonsense", "x-max-age": "1D"},
        {"x-queue-version": -1},
    )
    for arguments in tries:
        c.channel().queue("q", arguments)


@script
def arguments_of_other_queue_types(c: Context) -> None:
    """A classic queue refuses arguments of quorum queues and streams, whatever the value."""
    for name in (
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-initial-cluster-size",
        "x-max-age",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-queue-leader-locator",
        "x-quorum-initial-group-size",
        "x-stream-max-segment-size-bytes",
    ):
        c.channel().queue("q", {name: 5})
    ch = c.channel()
    ch.queue("q")
    ch.queue("q", {"x-max-age": "1D"})


@script
def nameless_queue_of_another_type(c: Context) -> None:
    """The server chooses names for classic queues only."""
    for kind in ("classic", b"classic", "quorum", "stream"):
        c.channel().queue("", {"x-queue-type": kind})


@script
def nameless_queue_of_unknown_type(c: Context) -> None:
    c.channel().queue("", {"x-queue-type": "nonsense"})


@script
def queue_type_named_later(c: Context) -> None:
    """A queue declared without a type is classic. The refusal of another type says that none was given."""
    c.channel().queue("q")
    c.channel().queue("q", {"x-queue-type": "classic"})
    c.channel().queue("q", {"x-queue-type": "nonsense"})
    c.channel().queue("q", {"x-queue-version": 2, "x-single-active-consumer": True})


@script
def exchange_type_in_quotes(c: Context) -> None:
    """A type with a hyphen in its name is quoted twice."""
    ch = c.channel()
    ch.exchange("plain", "direct")
    ch.exchange("recent", "x-recent-history")
    ch.exchange("plain", "x-recent-history")
    c.channel().exchange("recent", "direct")


@script
def consume_arguments_checked(c: Context) -> None:
    c.channel().queue("q")
    tries: tuple[dict[str, Any], ...] = (
        {"x-cancel-on-ha-failover": 1, "x-priority": "high"},
        {"x-cancel-on-ha-failover": "yes", "x-stream-offset": "first"},
        {"x-stream-offset": "first"},
        {"x-priority": Typed("T", 3)},
        {"x-cancel-on-ha-failover": True, "x-priority": Typed("s", -3)},
    )
    for arguments in tries:
        c.channel().consume("q", "t", arguments)


@script
def bind_wrongly_to_foreign_queue(c: Context) -> None:
    """A binding that cannot be is refused before it is seen whose queue it is."""
    c.channel().queue("q", exclusive=True)
    other = c.connect()
    c.channel(other).bind("q", "amq.headers", "", {"x-match": "nonsense"})
    c.channel(other).bind("q", "amq.headers")


@script
def delete_own_consumers_queue(c: Context) -> None:
    """The answer comes before the news that consumers are cancelled, and those in order of their tags."""
    ch = c.channel()
    ch.queue("q")
    for tag in ("u", "v", "t"):
        ch.consume("q", tag)
    ch.delete("q")
    ch.read(3)


@script
def delete_other_consumers_queue(c: Context) -> None:
    ch, other = c.channel(), c.channel()
    ch.queue("q")
    for tag in ("u", "v", "t"):
        ch.consume("q", tag)
    other.delete("q")
    ch.read(3)


@script
def reply_consumer_and_tags(c: Context) -> None:
    """The tag of the one who waits for replies can be taken once more, but not the other way round."""
    ch = c.channel()
    ch.queue("q")
    ch.consume(REPLY_TO, "t", no_ack=True)
    ch.consume("q", "t", no_ack=True)
    ch.publish("", "q", "x", reply_to=REPLY_TO)
    ch.read()
    ch.cancel("t")
    ch.publish("", "q", "x", reply_to=REPLY_TO)
    ch.read()
    again = c.channel()
    again.consume(REPLY_TO, "t", no_ack=True)
    again.consume(REPLY_TO, "t", no_ack=True)
    last = c.channel()
    last.consume("q", "t")
    last.consume(REPLY_TO, "t", no_ack=True)
