"""Policies and operator policies, on queues and exchanges that live."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def policy_message_ttl(c: Context) -> None:
    c.admin.set_policy("p", "^q$", {"message-ttl": 200}, "queues")
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    c.until_count("q", 0)


@script
def policy_message_ttl_on_living_queue(c: Context) -> None:
    """Messages published before the policy live as they were to live; later ones expire."""
    ch = c.channel()
    ch.queue("q")
    c.admin.set_policy("p", "^q$", {"message-ttl": 100}, "queues")
    ch.publish("", "q", "after")
    c.until_count("q", 0)


@script
def policy_smaller_of_policy_and_argument(c: Context) -> None:
    """Of a policy's TTL and an argument's the smaller counts."""
    c.admin.set_policy("p", ".*", {"message-ttl": 100}, "queues")
    ch = c.channel()
    ch.queue("large", {"x-message-ttl": 600000})
    ch.publish("", "large", "x")
    c.until_count("large", 0)
    c.admin.set_policy("p", ".*", {"message-ttl": 600000}, "queues")
    ch.queue("small", {"x-message-ttl": 100})
    ch.publish("", "small", "x")
    c.until_count("small", 0)


@script
def policy_max_length(c: Context) -> None:
    c.admin.set_policy("p", "^q$", {"max-length": 1}, "queues")
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)


@script
def policy_max_length_on_full_queue(c: Context) -> None:
    """Applied to a queue that is already too long, from the head."""
    ch = c.channel()
    ch.queue("q")
    for text in "abcd":
        ch.publish("", "q", text)
    ch.wait_for_hidden_confirms()
    c.admin.set_policy("p", "^q$", {"max-length": 2}, "queues")
    c.until_count("q", 2)
    ch.get("q", no_ack=True)


@script
def policy_overflow_reject(c: Context) -> None:
    c.admin.set_policy("p", "^q$", {"max-length": 1, "overflow": "reject-publish"}, "queues")
    ch = c.channel()
    ch.queue("q")
    ch.confirm()
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.confirms()


@script
def policy_dead_letter(c: Context) -> None:
    c.admin.set_policy(
        "p", "^q$", {"dead-letter-exchange": "amq.direct", "dead-letter-routing-key": "dead"}, "queues"
    )
    ch = c.channel()
    ch.queue("dead")
    ch.bind("dead", "amq.direct", "dead")
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def policy_dead_letter_argument_wins(c: Context) -> None:
    c.admin.set_policy("p", "^q$", {"dead-letter-exchange": "amq.direct"}, "queues")
    ch = c.channel()
    ch.queue("dead")
    ch.bind("dead", "amq.fanout")
    ch.queue("q", {"x-dead-letter-exchange": "amq.fanout"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def policy_alternate_exchange(c: Context) -> None:
    c.admin.set_policy("p", "^e$", {"alternate-exchange": "amq.fanout"}, "exchanges")
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.queue("rest")
    ch.bind("rest", "amq.fanout")
    ch.publish("e", "nobody", "x", mandatory=True)
    c.settle("rest")
    ch.get("rest", no_ack=True)


@script
def policy_alternate_exchange_cleared(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct")
    ch.queue("rest")
    ch.bind("rest", "amq.fanout")
    c.admin.set_policy("p", "^e$", {"alternate-exchange": "amq.fanout"}, "exchanges")
    ch.publish("e", "nobody", "one", mandatory=True)
    c.settle("rest")
    c.admin.clear_policy("p")
    ch.publish("e", "nobody", "two", mandatory=True)
    c.settle("rest")


@script
def policy_expires(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    c.admin.set_policy("p", "^q$", {"expires": 200}, "queues")
    ch.queue("clock", {"x-message-ttl": 1000})
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.passive("q")


@script
def policy_highest_priority_wins(c: Context) -> None:
    """One policy applies, whole; nothing is merged."""
    c.admin.set_policy("low", ".*", {"max-length": 1, "overflow": "reject-publish"}, "queues", 1)
    c.admin.set_policy("high", ".*", {"max-length": 2}, "queues", 5)
    ch = c.channel()
    ch.queue("q")
    ch.confirm()
    for text in "abc":
        ch.publish("", "q", text)
    ch.confirms()
    for _ in range(3):
        ch.get("q", no_ack=True)


@script
def policy_apply_to(c: Context) -> None:
    c.admin.set_policy("exchanges only", ".*", {"alternate-exchange": "amq.fanout"}, "exchanges", 9)
    c.admin.set_policy("queues only", ".*", {"max-length": 1}, "queues", 1)
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.passive("q")


@script
def policy_cleared_lifts_limit(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    c.admin.set_policy("p", "^q$", {"max-length": 1}, "queues")
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.passive("q")
    c.admin.clear_policy("p")
    ch.publish("", "q", "c")
    ch.passive("q")


@script
def policy_does_not_change_equivalence(c: Context) -> None:
    c.admin.set_policy("p", ".*", {"message-ttl": 60000}, "queues")
    ch = c.channel()
    ch.queue("q")
    ch.queue("q")
    ch.queue("q", {"x-message-ttl": 60000})


@script
def operator_policy_limits_policy(c: Context) -> None:
    """Of a policy's and an operator policy's number the smaller counts."""
    c.admin.set_policy("p", ".*", {"max-length": 5}, "queues")
    c.admin.set_operator_policy("o", ".*", {"max-length": 2}, "queues")
    ch = c.channel()
    ch.queue("q")
    for text in "abcd":
        ch.publish("", "q", text)
    ch.passive("q")


@script
def operator_policy_does_not_raise(c: Context) -> None:
    c.admin.set_policy("p", ".*", {"max-length": 2}, "queues")
    c.admin.set_operator_policy("o", ".*", {"max-length": 5}, "queues")
    ch = c.channel()
    ch.queue("q")
    for text in "abcd":
        ch.publish("", "q", text)
    ch.passive("q")


@script
def operator_policy_merges(c: Context) -> None:
    """Keys of both hold."""
    c.admin.set_policy("p", ".*", {"overflow": "reject-publish"}, "queues")
    c.admin.set_operator_policy("o", ".*", {"max-length": 1}, "queues")
    ch = c.channel()
    ch.queue("q")
    ch.confirm()
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.confirms()


@script
def operator_policy_limits_argument(c: Context) -> None:
    c.admin.set_operator_policy("o", ".*", {"max-length": 2, "message-ttl": 600000}, "queues")
    ch = c.channel()
    ch.queue("q", {"x-max-length": 5})
    for text in "abcd":
        ch.publish("", "q", text)
    ch.passive("q")


@script
def policy_max_length_bytes(c: Context) -> None:
    c.admin.set_policy("p", ".*", {"max-length-bytes": 4}, "queues")
    ch = c.channel()
    ch.queue("q")
    for text in ("aaa", "bbb"):
        ch.publish("", "q", text)
    ch.passive("q")
