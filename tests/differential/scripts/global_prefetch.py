"""basic.qos with `global`: one limit for all consumers of a channel, shared fairly, also by no-ack ones."""

from __future__ import annotations

from collections import Counter

from tests.differential.client import Channel
from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.transcript import Transcript

ACKS = 300


def served(c: Context, ch: Channel, acks: int, *, by: str, multiple: int = 1) -> Counter[str]:
    """Acknowledge and read so often, in silence; how many deliveries each queue or consumer had."""
    log, ch.log = ch.log, Transcript("-")
    counts: Counter[str] = Counter()
    held = 0
    for _ in range(acks):
        heard = ch.read()
        counts[heard.fields[by]] += 1
        held += 1
        if held == multiple:
            held = 0
            ch.ack(heard.fields["delivery-tag"], multiple=multiple > 1)
    ch.log = log
    return counts


def judge(c: Context, ch: Channel, counts: Counter[str]) -> None:
    """Record how many consumers were served.

    RabbitMQ draws the next queue at random and its processes race, so the shares of one run prove nothing;
    tests/channels/test_global_prefetch.py checks the shares of MirrorMQ.
    """
    ch.connection.end()
    ch.inbox.clear()
    c.transcript.add(f"- {sum(counts.values())} deliveries to {len(counts)} consumers")


def prepare(c: Context, queues: str, limit: int) -> Channel:
    """Queues with messages for all acknowledgements, a limit for the channel, a consumer of each queue."""
    ch = c.channel()
    for queue in queues:
        ch.queue(queue)
    log, ch.log = ch.log, Transcript("-")
    for queue in queues:
        for number in range(ACKS):
            ch.publish("", queue, str(number))
    ch.log = log
    ch.wait_for_hidden_confirms()
    ch.qos(limit, everywhere=True)
    for queue in queues:
        ch.send("basic.consume", queue=queue, consumer_tag=queue)
    return ch


def hear_consume_ok(ch: Channel, count: int) -> None:
    """Take the answers out of what comes, wherever they are between deliveries."""
    kept = []
    while count:
        heard = ch.next()
        if getattr(heard, "name", "") == "basic.consume-ok":
            count -= 1
        else:
            kept.append(heard)
    ch.inbox.extendleft(reversed(kept))


for _limit in (1, 3, 10):

    @script(name=f"global_prefetch_{_limit}_fair_between_queues")
    def _fair(c: Context, limit: int = _limit) -> None:
        ch = prepare(c, "abc", limit)
        hear_consume_ok(ch, 3)
        judge(c, ch, served(c, ch, ACKS, by="routing-key"))


@script
def global_prefetch_fair_with_multiple(c: Context) -> None:
    """All that the channel holds is acknowledged at once."""
    ch = prepare(c, "abc", 10)
    hear_consume_ok(ch, 3)
    judge(c, ch, served(c, ch, ACKS, by="routing-key", multiple=10))


@script
def global_prefetch_fair_between_consumers_of_a_queue(c: Context) -> None:
    ch = prepare(c, "a", 1)
    ch.send("basic.consume", queue="a", consumer_tag="again")
    hear_consume_ok(ch, 2)
    judge(c, ch, served(c, ch, ACKS, by="consumer-tag"))


@script
def global_prefetch_no_ack_waits(c: Context) -> None:
    """A consumer without acknowledgements gets nothing while the channel holds as much as it may."""
    ch = c.channel()
    ch.queue("a")
    ch.queue("b")
    ch.qos(1, everywhere=True)
    ch.consume("a", "acks")
    ch.consume("b", "none", no_ack=True)
    ch.publish("", "a", "held")
    ch.read()
    for text in "xyz":
        ch.publish("", "b", text)
    c.settle("a", "b")
    ch.passive("b")
    ch.ack(1)
    ch.read(3)
    ch.passive("b")


@script
def global_prefetch_no_ack_does_not_count(c: Context) -> None:
    ch = c.channel()
    ch.queue("b")
    ch.queue("a")
    ch.qos(2, everywhere=True)
    ch.consume("b", "none", no_ack=True)
    for text in "uvwxyz":
        ch.publish("", "b", text)
    ch.read(6)
    ch.consume("a", "acks")
    for text in "123":
        ch.publish("", "a", text)
    c.settle("a", "b")


@script
def global_prefetch_gets_do_not_count(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(1, everywhere=True)
    ch.publish("", "q", "a")
    ch.get("q")
    ch.consume("q", "t")
    ch.publish("", "q", "b")
    ch.read()
    ch.publish("", "q", "c")
    c.settle("q")
    ch.ack(1)
    c.settle("q")
    ch.ack(2)
    ch.read()


@script
def global_prefetch_set_while_messages_are_out(c: Context) -> None:
    """A limit that comes later counts what is out already."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    for text in "abc":
        ch.publish("", "q", text)
    ch.read(3)
    ch.qos(2, everywhere=True)
    ch.publish("", "q", "d")
    c.settle("q")
    ch.ack(1)
    c.settle("q")
    ch.ack(2)
    ch.read()


@script
def global_prefetch_lifted(c: Context) -> None:
    ch = c.channel()
    ch.queue("a")
    ch.queue("b")
    ch.qos(1, everywhere=True)
    ch.consume("a", "acks")
    ch.consume("b", "none", no_ack=True)
    ch.publish("", "a", "held")
    ch.read()
    ch.publish("", "b", "x")
    c.settle("a", "b")
    ch.qos(0, everywhere=True)
    ch.read()


@script
def global_prefetch_with_window_of_consumer(c: Context) -> None:
    """Both limits hold."""
    ch = c.channel()
    ch.queue("a")
    ch.queue("b")
    ch.qos(1)
    ch.qos(2, everywhere=True)
    ch.consume("a", "one")
    ch.consume("b", "two")
    for queue in "ab":
        ch.publish("", queue, "1")
        ch.read()
        ch.publish("", queue, "2")
    c.settle("a", "b")
    ch.ack(1)
    ch.read()
    c.settle("a", "b")


@script
def global_prefetch_cancelled_consumer_counts(c: Context) -> None:
    ch = c.channel()
    ch.queue("a")
    ch.queue("b")
    ch.qos(1, everywhere=True)
    ch.consume("a", "one")
    ch.publish("", "a", "x")
    ch.read()
    ch.cancel("one")
    ch.consume("b", "two")
    ch.publish("", "b", "y")
    c.settle("a", "b")
    ch.ack(1)
    ch.read()
