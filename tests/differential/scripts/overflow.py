"""Queues with a limit, and what happens to the message that is too many."""

from __future__ import annotations

from typing import Any

from tests.differential.context import Context
from tests.differential.runner import script


def fill(c: Context, arguments: dict[str, Any], texts: list[str], *, confirms: bool = True) -> None:
    """Publish, write down the confirms, then what the queue holds and what was dead-lettered."""
    ch = c.channel()
    ch.queue("dead")
    ch.bind("dead", "amq.fanout")
    ch.queue("q", arguments)
    if confirms:
        ch.confirm()
    for text in texts:
        ch.publish("", "q", text)
    if confirms:
        ch.confirms()
    for queue in ("q", "dead"):
        while ch.get(queue, no_ack=True).name == "basic.get-ok":
            pass


TO_FANOUT = {"x-dead-letter-exchange": "amq.fanout"}


@script
def overflow_drop_head(c: Context) -> None:
    fill(c, {"x-max-length": 2}, ["a", "b", "c", "d"])


@script
def overflow_drop_head_unconfirmed(c: Context) -> None:
    fill(c, {"x-max-length": 2, "x-overflow": "drop-head"}, ["a", "b", "c", "d"], confirms=False)


@script
def overflow_reject_publish(c: Context) -> None:
    fill(c, {"x-max-length": 2, "x-overflow": "reject-publish"}, ["a", "b", "c", "d"])


@script
def overflow_reject_publish_unconfirmed(c: Context) -> None:
    fill(c, {"x-max-length": 2, "x-overflow": "reject-publish"}, ["a", "b", "c", "d"], confirms=False)


@script
def overflow_reject_publish_does_not_dead_letter(c: Context) -> None:
    fill(c, {"x-max-length": 1, "x-overflow": "reject-publish", **TO_FANOUT}, ["a", "b"])


@script
def overflow_length_zero(c: Context) -> None:
    fill(c, {"x-max-length": 0}, ["a", "b"])


@script
def overflow_length_zero_reject(c: Context) -> None:
    fill(c, {"x-max-length": 0, "x-overflow": "reject-publish"}, ["a", "b"])


@script
def overflow_bytes(c: Context) -> None:
    """Bodies count, nothing else."""
    fill(c, {"x-max-length-bytes": 10}, ["aaaa", "bbbb", "cc", "d"])


@script
def overflow_bytes_one_too_large(c: Context) -> None:
    """A message above the whole limit takes everything along."""
    fill(c, {"x-max-length-bytes": 10}, ["aaaa", "bbbbbbbbbbbbbbb", "c"])


@script
def overflow_bytes_reject(c: Context) -> None:
    fill(c, {"x-max-length-bytes": 10, "x-overflow": "reject-publish"}, ["aaaa", "bbbbbbb", "c", "d"])


@script
def overflow_both_limits(c: Context) -> None:
    fill(c, {"x-max-length-bytes": 10, "x-max-length": 2}, ["a", "b", "c", "dddddddddd"])


@script
def overflow_counts_ready_only(c: Context) -> None:
    """Unacknowledged messages are not counted."""
    ch = c.channel()
    ch.queue("q", {"x-max-length": 1})
    ch.publish("", "q", "a")
    ch.get("q")
    ch.publish("", "q", "b")
    ch.passive("q")
    ch.nack(1, requeue=True)
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)


@script
def overflow_mandatory_reject(c: Context) -> None:
    """A rejected message was routable: it is nacked, not returned."""
    ch = c.channel()
    ch.queue("q", {"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.confirm()
    ch.publish("", "q", "x", mandatory=True)
    ch.confirms()


@script
def overflow_one_of_two_queues_rejects(c: Context) -> None:
    """One queue that rejects makes a nack, and the other still has the message."""
    ch = c.channel()
    ch.queue("full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.queue("free")
    ch.bind("full", "amq.fanout")
    ch.bind("free", "amq.fanout")
    ch.confirm()
    ch.publish("amq.fanout", "", "x")
    ch.confirms()
    ch.get("free", no_ack=True)


@script
def overflow_priority_queue(c: Context) -> None:
    """The head that is dropped is of the lowest priority."""
    ch = c.channel()
    ch.queue("q", {"x-max-length": 2, "x-max-priority": 5})
    for priority in (1, 5, 3, 4):
        ch.publish("", "q", str(priority), priority=priority)
    ch.wait_for_hidden_confirms()
    for _ in range(3):
        ch.get("q", no_ack=True)
