"""Random walks: a seed chooses queues, limits and two hundred steps; both brokers must walk alike.

Nobody thinks of every order in which publishes, gets, acks, nacks, purges and deletes can meet limits,
priorities and dead letters. A walk does not have to be understood to be compared. Steps are of one channel
and without timers, each queue has a chain of its own for its dead letters, and a hidden barrier after each
step keeps RabbitMQ, whose queues are processes, in step with itself.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.client import Channel
from tests.differential.context import Context
from tests.differential.runner import script

SEEDS = range(24)
STEPS = 120
FRONT = ("a", "b", "c")
"""Exchanges and routing keys of the publishes."""
BEHIND = {name: f"{name} dead" for name in FRONT} | {f"{name} dead": f"{name} end" for name in FRONT}
"""Dead-letter target of each queue."""
QUEUES = (*FRONT, *(f"{name} dead" for name in FRONT), *(f"{name} end" for name in FRONT))


class Walk:
    """One seed's walk."""

    def __init__(self, c: Context, seed: int) -> None:
        self.c, self.random = c, Random(seed)
        self.channel: Channel = c.channel()
        self.unacked: list[int] = []
        self.published = 0
        self.barrier = Barrier(c)

    def run(self) -> None:
        for queue in QUEUES:
            self.declare(queue)
        steps = (
            [self.publish] * 8 + [self.get] * 5 + [self.settle] * 4 + [self.purge, self.recreate, self.fanout]
        )
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.barrier.pass_through()
        self.drain()

    def declare(self, queue: str) -> None:
        arguments: dict[str, Any] = {}
        choose = self.random.random
        if choose() < 0.4:
            arguments["x-max-length"] = self.random.randint(0, 6)
        if choose() < 0.2:
            arguments["x-max-length-bytes"] = self.random.randint(5, 60)
        if choose() < 0.4:
            arguments["x-overflow"] = self.random.choice(
                ("drop-head", "reject-publish", "reject-publish-dlx")
            )
        if choose() < 0.3:
            arguments["x-max-priority"] = self.random.randint(1, 5)
        if choose() < 0.7 and queue in BEHIND:
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = BEHIND[queue]
        if choose() < 0.2:
            arguments["x-queue-mode"] = "lazy"
        self.channel.queue(queue, arguments, durable=choose() < 0.5)
        if choose() < 0.7 and queue in FRONT:
            self.channel.bind(queue, "amq.fanout")

    def publish(self) -> None:
        self._publish("", self.random.choice(FRONT))

    def fanout(self) -> None:
        self._publish("amq.fanout", "")

    def _publish(self, exchange: str, key: str) -> None:
        self.published += 1
        properties: dict[str, Any] = {}
        if self.random.random() < 0.5:
            properties["delivery_mode"] = 2
        if self.random.random() < 0.5:
            properties["priority"] = self.random.randint(0, 7)
        if self.random.random() < 0.2:
            properties["headers"] = {"CC": [self.random.choice(FRONT)]}
        body = f"{self.published}" + "x" * self.random.choice((0, 0, 3, 20))
        self.channel.publish(exchange, key, body, **properties)
        self.channel.wait_for_hidden_confirms()

    def get(self) -> None:
        no_ack = self.random.random() < 0.3
        answer = self.channel.get(self.random.choice(QUEUES), **({"no_ack": True} if no_ack else {}))
        if answer.name == "basic.get-ok" and not no_ack:
            self.unacked.append(answer.delivery_tag)

    def settle(self) -> None:
        if not self.unacked:
            return
        tag = self.random.choice(self.unacked)
        multiple = self.random.random() < 0.25
        flags = {"multiple": True} if multiple else {}
        match self.random.choice(("ack", "reject", "requeue", "requeue")):
            case "ack":
                self.channel.ack(tag, **flags)
            case "reject":
                self.channel.nack(tag, **flags)
            case _:
                self.channel.nack(tag, requeue=True, **flags)
        self.unacked = [other for other in self.unacked if (other > tag if multiple else other != tag)]

    def purge(self) -> None:
        self.channel.call("queue.purge", queue=self.random.choice(QUEUES))

    def recreate(self) -> None:
        if self.random.random() < 0.3:
            queue = self.random.choice(FRONT)
            self.channel.delete(queue)
            self.declare(queue)

    def drain(self) -> None:
        self.channel.send("basic.recover-async", requeue=True)
        self.barrier.pass_through()
        for queue in QUEUES:
            while self.channel.get(queue, no_ack=True).name == "basic.get-ok":
                pass


class Barrier:
    """Lets time stand still until every queue has done what it was told.

    A queue answers basic.consume in the order of its mailbox, unlike a passive declare. So a channel that
    can take no delivery (its window of one is full) consumes from each queue and cancels again, in the order
    in which dead letters move.
    """

    def __init__(self, c: Context) -> None:
        self._walker_settles = c.settle
        self.channel = c.channel()
        self.channel.hidden_call("queue.declare", queue="stopper", exclusive=True)
        self.channel.hidden_call("basic.qos", prefetch_count=1, **{"global": True})
        self.channel.hidden_call("basic.consume", queue="stopper", consumer_tag="stopper")
        mark = len(c.transcript.lines)
        self.channel.publish("", "stopper", "held for ever")
        self.channel.wait_for_hidden_confirms()
        self.channel.read()
        del c.transcript.lines[mark:]

    def pass_through(self) -> None:
        self._walker_settles()
        for queue in QUEUES:
            self.channel.hidden_call("basic.consume", queue=queue, consumer_tag=queue)
            self.channel.hidden_call("basic.cancel", consumer_tag=queue)


for _seed in SEEDS:

    @script(name=f"random_walk_{_seed:02d}")
    def _walk(c: Context, seed: int = _seed) -> None:
        """See the top of this file."""
        Walk(c, seed).run()
