"""x-death as a publisher brings it: entries of its own, several of a kind, miscounted, or of other types.

A count that is no number, and entries that are no tables, are left out: RabbitMQ's queue dies of them and
loses the message.
"""

from __future__ import annotations

from typing import Any

from tests.differential.codec import Typed
from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.scripts.dead_letter import prepare


def death(queue: str, reason: str, **more: Any) -> dict[str, Any]:
    """An entry as the broker writes it, as far as a script says."""
    return {"queue": queue, "reason": reason} | more


def counted(number: int) -> Typed:
    return Typed("l", number)


TWICE = [death("other", "expired", count=counted(3)), death("other", "expired", count=counted(4))]

BROUGHT: dict[str, Any] = {
    "empty": [],
    "one_of_another_queue": [death("other", "expired", count=counted(7))],
    "one_of_this_queue": [death("q", "rejected", count=counted(7))],
    "one_of_this_queue_uncounted": [death("q", "rejected")],
    "one_of_this_queue_counted_as_int": [death("q", "rejected", count=7)],
    "one_of_another_reason": [death("q", "expired", count=counted(7))],
    "twice_the_same": TWICE,
    "twice_uncounted": [death("other", "expired"), death("other", "expired")],
    "thrice_uncounted_of_this_queue": [death("q", "rejected")] * 3,
    "twice_of_this_queue": [
        death("q", "rejected", count=counted(3)),
        death("q", "rejected", count=counted(4)),
    ],
    "second_counted": [death("other", "expired"), death("other", "expired", count=counted(4))],
    "second_counted_of_this_queue": [death("q", "rejected"), death("q", "rejected", count=counted(4))],
    "several": [
        death("a", "expired", count=counted(1)),
        death("b", "expired", count=counted(2)),
        death("c", "maxlen", count=counted(3)),
    ],
    "several_mixed": [
        death("a", "expired"),
        death("q", "rejected", count=counted(5)),
        death("a", "expired"),
        death("b", "maxlen"),
        death("a", "rejected"),
        death("q", "rejected"),
        death("b", "maxlen"),
    ],
    "without_queue": [{"reason": "expired"}],
    "without_reason": [{"queue": "other"}],
    "two_without_anything": [{}, {}],
    "more_fields": [death("q", "rejected", count=counted(2), mine="kept", exchange="e")],
    "queue_of_another_type": [{"queue": 5, "reason": "expired"}, death("q", "rejected")],
    "two_queues_of_another_type": [{"queue": 5, "reason": 1}, {"queue": 5, "reason": 1}],
    "table": {"queue": "other"},
    "text": "died",
    "integer": 5,
}
for _name, _brought in BROUGHT.items():

    @script(name=f"foreign_death_{_name}")
    def _foreign(c: Context, brought: Any = _brought) -> None:
        ch = prepare(c)
        ch.publish("", "q", "x", headers={"x-death": brought, "mine": "kept"})
        ch.get("q")
        ch.reject(1)
        c.until_got(ch, "dead")


@script
def foreign_first_death(c: Context) -> None:
    """x-first-death-* of a publisher are replaced where there is no x-death."""
    ch = prepare(c)
    first = {"x-first-death-queue": "mine", "x-first-death-reason": "mine", "x-first-death-exchange": "mine"}
    ch.publish("", "q", "x", headers=first)
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def foreign_death_grouped_twice(c: Context) -> None:
    """Two deaths behind each other: the second finds groups."""
    ch = c.channel()
    ch.queue("dead")
    ch.queue("r", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "r"})
    deaths = [death("a", "expired"), death("a", "expired"), death("b", "maxlen", count=counted(2))]
    ch.publish("", "q", "x", headers={"x-death": deaths})
    ch.get("q")
    ch.reject(1)
    c.until_count("r", 1)
    ch.get("r")
    ch.reject(2)
    c.until_got(ch, "dead")


def circle(c: Context, brought: list[dict[str, Any]]) -> None:
    """Expire in q towards q itself, with a history that a publisher brought."""
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 100, "x-dead-letter-exchange": "amq.fanout"})
    ch.queue("seen")
    for queue in ("q", "seen"):
        ch.bind(queue, "amq.fanout")
    ch.publish("", "q", "x", headers={"x-death": brought})
    c.until_count("seen", 1)
    c.until_count("q", 0)
    ch.get("seen", no_ack=True)


@script
def foreign_death_circle(c: Context) -> None:
    circle(c, [death("q", "expired", count=counted(1))])


@script
def foreign_death_circle_broken_by_rejection(c: Context) -> None:
    """A publisher's x-death says that the message was rejected in q, so it may return there."""
    circle(c, [death("q", "rejected", count=counted(1)), death("q", "expired", count=counted(1))])
