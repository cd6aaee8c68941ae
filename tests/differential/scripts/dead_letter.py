"""Dead-lettering: reasons, counts, headers, keys and circles."""

from __future__ import annotations

from typing import Any

from tests.differential.client import Channel
from tests.differential.codec import Typed
from tests.differential.context import Context
from tests.differential.runner import script


def prepare(c: Context, arguments: dict[str, Any] | None = None) -> Channel:
    """A queue q whose dead letters go through amq.fanout to the queue dead."""
    ch = c.channel()
    ch.queue("dead")
    ch.bind("dead", "amq.fanout")
    ch.queue("q", {"x-dead-letter-exchange": "amq.fanout"} | (arguments or {}))
    return ch


@script
def dead_letter_rejected(c: Context) -> None:
    ch = prepare(c)
    ch.publish("", "q", "x", headers={"mine": "kept"}, message_id="m", delivery_mode=2)
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def dead_letter_nacked_multiple(c: Context) -> None:
    ch = prepare(c)
    for text in "abc":
        ch.publish("", "q", text)
    for _ in range(3):
        ch.get("q")
    ch.nack(3, multiple=True)
    c.until_count("dead", 3)
    for _ in range(3):
        ch.get("dead", no_ack=True)


@script
def dead_letter_requeued_is_not(c: Context) -> None:
    ch = prepare(c)
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1, requeue=True)
    ch.get("q", no_ack=True)
    ch.get("dead")


@script
def dead_letter_expired_queue_ttl(c: Context) -> None:
    ch = prepare(c, {"x-message-ttl": 100})
    ch.publish("", "q", "x")
    c.until_got(ch, "dead")


@script
def dead_letter_expired_message_ttl(c: Context) -> None:
    """The expiration is taken off and kept in x-death."""
    ch = prepare(c)
    ch.publish("", "q", "x", expiration="100")
    c.until_got(ch, "dead")


@script
def dead_letter_ttl_zero(c: Context) -> None:
    ch = prepare(c, {"x-message-ttl": 0})
    ch.publish("", "q", "x")
    c.until_got(ch, "dead")


@script
def dead_letter_maxlen(c: Context) -> None:
    ch = prepare(c, {"x-max-length": 1})
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    c.until_got(ch, "dead")
    ch.get("q", no_ack=True)


@script
def dead_letter_maxlen_zero(c: Context) -> None:
    ch = prepare(c, {"x-max-length": 0})
    ch.publish("", "q", "a")
    c.until_got(ch, "dead")


@script
def dead_letter_reject_publish_dlx(c: Context) -> None:
    """The new message is nacked and dead-lettered."""
    ch = prepare(c, {"x-max-length": 1, "x-overflow": "reject-publish-dlx"})
    ch.confirm()
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.confirms()
    c.until_got(ch, "dead")
    ch.get("q", no_ack=True)


@script
def dead_letter_routing_key(c: Context) -> None:
    ch = c.channel()
    ch.queue("dead")
    ch.bind("dead", "amq.direct", "new key")
    ch.queue("q", {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "new key"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def dead_letter_to_default_exchange(c: Context) -> None:
    ch = c.channel()
    ch.queue("dead")
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def dead_letter_keeps_routing_keys(c: Context) -> None:
    """Without a key of its own the message keeps its keys, CC included and BCC gone."""
    ch = c.channel()
    for queue in ("by key", "by cc", "by bcc"):
        ch.queue(queue)
        ch.bind(queue, "amq.direct", queue)
    ch.queue("q", {"x-dead-letter-exchange": "amq.direct"})
    ch.bind("q", "amq.topic", "#")
    ch.publish("amq.topic", "by key", "x", headers={"CC": ["by cc"], "BCC": ["by bcc"]})
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "by key")
    c.until_got(ch, "by cc")
    ch.get("by bcc")


@script
def dead_letter_routing_key_drops_cc(c: Context) -> None:
    ch = c.channel()
    ch.queue("dead")
    ch.queue("by cc")
    ch.bind("dead", "amq.direct", "dead")
    ch.bind("by cc", "amq.direct", "by cc")
    ch.queue("q", {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "dead"})
    ch.publish("", "q", "x", headers={"CC": ["by cc"]})
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")
    ch.get("by cc")


@script
def dead_letter_missing_exchange(c: Context) -> None:
    """A missing dead-letter exchange is no error; the message is dropped."""
    ch = c.channel()
    ch.queue("q", {"x-dead-letter-exchange": "nowhere"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    ch.get("q")


@script
def dead_letter_unroutable(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "nobody"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    ch.get("q")


@script
def dead_letter_twice_same_queue_counts(c: Context) -> None:
    """Rejected again from the same queue: one x-death entry, count two."""
    ch = c.channel()
    ch.queue("q", {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "back"})
    ch.bind("q", "amq.direct", "back")
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    c.until_count("q", 1)
    ch.get("q")
    ch.reject(2)
    c.until_count("q", 1)
    ch.get("q", no_ack=True)


@script
def dead_letter_two_queues(c: Context) -> None:
    """The newest death comes first; x-first-death headers stay with the first."""
    ch = c.channel()
    ch.queue("last")
    ch.queue("second", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "last"})
    ch.queue(
        "first", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second", "x-message-ttl": 100}
    )
    ch.publish("", "first", "x")
    c.until_count("second", 1)
    ch.get("second")
    ch.reject(1)
    c.until_got(ch, "last")


@script
def dead_letter_back_to_first(c: Context) -> None:
    """A known death moves to the front and counts up."""
    ch = c.channel()
    ch.queue("one", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "two"})
    ch.queue("two", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "one"})
    ch.publish("", "one", "x")
    for tag, (here, there) in enumerate((("one", "two"), ("two", "one"), ("one", "two")), 1):
        c.until_count(here, 1)
        ch.get(here)
        ch.reject(tag)
        c.until_count(there, 1)
    ch.get("two", no_ack=True)


@script
def dead_letter_automatic_circle_is_cut(c: Context) -> None:
    """A circle without a rejection in it ends: the message is dropped."""
    ch = c.channel()
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 100})
    ch.publish("", "q", "x")
    c.until_count("q", 0)
    ch.queue("clock", {"x-message-ttl": 300})
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.get("q")


@script
def dead_letter_circle_of_two_is_cut(c: Context) -> None:
    ch = c.channel()
    ch.queue("a", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b", "x-message-ttl": 100})
    ch.queue("b", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a", "x-message-ttl": 100})
    ch.publish("", "a", "x")
    ch.queue("clock", {"x-message-ttl": 1000})
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.get("a")
    ch.get("b")


@script
def dead_letter_reason_differs_new_entry(c: Context) -> None:
    """Same queue, other reason: an entry of its own."""
    ch = c.channel()
    ch.queue("other", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"})
    ch.publish("", "q", "x", expiration="50")
    for tag, queue in enumerate(("other", "q"), 1):
        c.until_count(queue, 1)
        ch.get(queue)
        ch.reject(tag)
    c.until_got(ch, "other")


@script
def dead_letter_forged_x_death(c: Context) -> None:
    """A publisher's own x-death entry is believed."""
    ch = prepare(c)
    death = {
        "count": Typed("l", 7),
        "reason": "rejected",
        "queue": "q",
        "time": Typed("T", 5),
        "exchange": "forged",
        "routing-keys": ["f"],
    }
    ch.publish("", "q", "x", headers={"x-death": [death]})
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def dead_letter_forged_x_death_not_an_array(c: Context) -> None:
    ch = prepare(c)
    ch.publish("", "q", "x", headers={"x-death": "nonsense"})
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def dead_letter_purge_and_delete_do_not(c: Context) -> None:
    """Messages that are purged, or deleted with their queue, are not dead-lettered."""
    ch = prepare(c)
    ch.publish("", "q", "purged")
    ch.wait_for_hidden_confirms()
    ch.call("queue.purge", queue="q")
    ch.publish("", "q", "deleted")
    ch.wait_for_hidden_confirms()
    ch.delete("q")
    ch.get("dead")


@script
def dead_letter_properties_survive(c: Context) -> None:
    ch = prepare(c)
    ch.publish(
        "",
        "q",
        "x",
        content_type="text/plain",
        content_encoding="utf-8",
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=12345,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="cl",
        expiration="60000",
        headers={"a": 1},
    )
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def dead_letter_order(c: Context) -> None:
    ch = prepare(c, {"x-message-ttl": 100})
    for number in range(5):
        ch.publish("", "q", str(number))
    c.until_count("dead", 5)
    for _ in range(5):
        ch.get("dead", no_ack=True)
