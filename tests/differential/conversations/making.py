"""A conversation from a seed: steps decided before anything is said, so that some can be left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.differential.conversations.words import EXCHANGES, KINDS, QUEUES, STANDARD, TAGS, Words


@dataclass(frozen=True)
class Step:
    """Something said on one of a few channels of one of a few connections."""

    at: tuple[int, int]
    verb: str
    fields: dict[str, Any] = field(default_factory=dict)


def pending_reply(seed: int) -> list[Step]:
    return Maker(seed).steps()


class Maker:
    """Makes the steps of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.words = Words(self.random, polite=self.random.random() < 0.6)
        self.connections = self.random.choice((1, 1, 2, 2, 3))
        self.channels = self.random.choice((1, 1, 2))
        self.published = 0

    def steps(self) -> list[Step]:
        steps = [self.step(self.declare_queue) for _ in range(self.random.randint(1, 3))]
        makers, weights = zip(*self.weighted().items(), strict=True)
        chosen = self.random.choices(makers, weights, k=self.random.randint(5, 40))
        return [*steps, *(self.step(make) for make in chosen)]

    def step(self, make: Callable[[], tuple[str, dict[str, Any]]]) -> Step:
        at = (self.random.randrange(self.connections), self.random.randrange(self.channels))
        return Step(at, *make())

    def weighted(self) -> dict[Callable[[], tuple[str, dict[str, Any]]], float]:
        return {
            self.declare_queue: 8,
            self.declare_exchange: 5,
            self.bind_queue: 8,
            self.bind_exchange: 3,
            self.unbind: 2,
            self.delete_queue: 3,
            self.delete_exchange: 2,
            self.purge: 1,
            self.publish: 26,
            self.publish_and: 6,
            self.get: 10,
            self.consume: 10,
            self.cancel: 3,
            self.settle: 16,
            self.qos: 4,
            self.recover: 2,
            self.transaction: 3,
            self.confirm: 1,
            self.odd: 0.2 if self.words.odd < 1 else 2,
            self.leave: 2,
            self.cross: 1.5,
            self.policy: 2,
        }

    # -- what there is ---------------------------------------------------------------------------------

    def declare_queue(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        flags = w.flags(durable=0.3, exclusive=0.1, auto_delete=0.12, passive=0.12 * w.odd, nowait=0.05)
        name = "" if w.chance(0.04) else w.queue()
        return "queue.declare", {"queue": name, **flags, **_some(arguments=w.queue_arguments())}

    def declare_exchange(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        flags = w.flags(
            durable=0.3, internal=0.08 * w.odd, auto_delete=0.15, passive=0.1 * w.odd, nowait=0.05
        )
        kind = w.one("no-such-type", "", "x-recent-history") if w.mistake(0.04) else w.one(*KINDS)
        fields = {"exchange": w.own_exchange(), "type": kind, **flags}
        return "exchange.declare", fields | _some(arguments=w.exchange_arguments())

    def bind_queue(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        source = w.exchange() if w.mistake(0.2) else w.one(*EXCHANGES, *STANDARD)
        fields = {"queue": w.queue(), "exchange": source, "routing_key": w.key(), **w.flags(nowait=0.05)}
        return "queue.bind", fields | _some(arguments=w.binding_arguments())

    def bind_exchange(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        source = w.exchange() if w.mistake(0.2) else w.one(*EXCHANGES, *STANDARD)
        ends = {
            "destination": w.one("", "nowhere") if w.mistake(0.2) else w.one(*EXCHANGES),
            "source": source,
        }
        fields = {**ends, "routing_key": w.key(), **w.flags(nowait=0.05)}
        return "exchange.bind", fields | _some(arguments=w.binding_arguments())

    def unbind(self) -> tuple[str, dict[str, Any]]:
        verb, fields = self.words.one(self.bind_queue, self.bind_queue, self.bind_exchange)()
        fields.pop("nowait", None)
        return verb.replace("bind", "unbind"), fields

    def delete_queue(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        return "queue.delete", {"queue": w.queue(), **w.flags(if_unused=0.25, if_empty=0.25, nowait=0.05)}

    def delete_exchange(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        return "exchange.delete", {"exchange": w.own_exchange(), **w.flags(if_unused=0.3, nowait=0.05)}

    def purge(self) -> tuple[str, dict[str, Any]]:
        return "queue.purge", {"queue": self.words.queue(), **self.words.flags(nowait=0.05)}

    # -- messages --------------------------------------------------------------------------------------

    def publish(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        self.published += 1
        exchange = w.exchange()
        key = w.one(*QUEUES) if exchange == "" and w.chance(0.9) else w.key()
        body = f"{self.published}" + "x" * w.one(0, 0, 0, 3, 8)
        fields = {"exchange": exchange, "routing_key": key, "body": body, **w.properties()}
        return "basic.publish", fields | w.flags(mandatory=0.25, immediate=0.01 * w.odd) | _some(
            times=w.one(0, 0, 0, 0, 2, 3)
        )

    def publish_and(self) -> tuple[str, dict[str, Any]]:
        """A publish and a method right behind it, in one write. Not a passive declare: it overtakes publishes
        in RabbitMQ."""
        w = self.words
        verb, fields = w.one(self.get, self.purge, self.delete_queue, self.cancel)()
        fields.pop("nowait", None)
        _, publish = self.publish()
        if "queue" in fields and w.chance(0.8):
            publish |= {"exchange": "", "routing_key": fields["queue"]}
        return "publish and", {"publish": publish, "verb": verb, "fields": fields}

    def get(self) -> tuple[str, dict[str, Any]]:
        return "basic.get", {"queue": self.words.queue(), **self.words.flags(no_ack=0.3)}

    def consume(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        flags = w.flags(no_ack=0.2, exclusive=0.1, no_local=0.05, nowait=0.05)
        queue = "amq.rabbitmq.reply-to" if w.chance(0.02) else w.queue()
        fields = {"queue": queue, "consumer_tag": "" if w.chance(0.05) else w.one(*TAGS), **flags}
        return "basic.consume", fields | _some(arguments=w.consume_arguments())

    def cancel(self) -> tuple[str, dict[str, Any]]:
        return "basic.cancel", {"consumer_tag": self.words.one(*TAGS), **self.words.flags(nowait=0.05)}

    def settle(self) -> tuple[str, dict[str, Any]]:
        """Acknowledges the nth of what is out, from the oldest; or any number, known or not."""
        w = self.words
        verb = w.one("basic.ack", "basic.ack", "basic.nack", "basic.nack", "basic.reject")
        flags = w.flags(requeue=0.5) if verb != "basic.ack" else {}
        if verb != "basic.reject":
            flags |= w.flags(multiple=0.25)
        if w.mistake(0.06):
            return verb, {"delivery_tag": w.one(0, 0, 1, 2, 99, 2**63), **flags}
        return verb, {"nth": w.one(0, 0, 0, 1, 2, -1), **flags, **_some(times=w.one(0, 0, 0, 2, 3))}

    def qos(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        size = {"prefetch_size": 10} if w.mistake(0.05) else {}
        return "basic.qos", {
            "prefetch_count": w.one(0, 1, 1, 2, 3, 65535),
            **size,
            **w.flags(**{"global": 0.4}),
        }

    def recover(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        return w.one("basic.recover", "basic.recover-async"), {"requeue": not w.mistake(0.07)}

    # -- modes, ends, oddities, orders -----------------------------------------------------------------

    def transaction(self) -> tuple[str, dict[str, Any]]:
        return self.words.one("tx.select", "tx.select", "tx.commit", "tx.commit", "tx.rollback"), {}

    def confirm(self) -> tuple[str, dict[str, Any]]:
        return "confirm.select", self.words.flags(nowait=0.2)

    def odd(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        choices: tuple[tuple[str, dict[str, Any]], ...] = (
            ("channel.flow", {"active": True}),
            ("channel.flow", {"active": False}),
            ("channel.open", {}),
            ("basic.get-empty", {}),
            ("channel.close-ok", {}),
            ("tx.select-ok", {}),
        )
        return w.one(*choices)  # type: ignore[no-any-return]

    def leave(self) -> tuple[str, dict[str, Any]]:
        return self.words.one("channel.close", "channel.close", "connection.close", "drop"), {}

    def cross(self) -> tuple[str, dict[str, Any]]:
        """Closes that cross the broker's, or each other."""
        return self.words.one("cross channel.close", "cross connection.close"), {}

    def policy(self) -> tuple[str, dict[str, Any]]:
        w = self.words
        if w.chance(0.3):
            return "clear_policy", {"name": w.one("p", "o")}
        known: dict[str, Any] = {
            "max-length": w.one(0, 1, 2),
            "message-ttl": w.one(0, 100000),
            "dead-letter-exchange": w.one("", "e", "amq.fanout"),
            "dead-letter-routing-key": w.one(*QUEUES),
            "overflow": w.one("drop-head", "reject-publish"),
            "alternate-exchange": w.one("e", "amq.fanout"),
            "max-length-bytes": w.one(5, 10),
            "expires": 100000,
        }
        names = self.random.sample(sorted(known), w.one(1, 1, 2, 3))
        pattern = w.one(".*", "^a$", "^[ab]$", "^e$")
        name, priority = w.one(("p", 0), ("o", 1))
        fields = {"name": name, "pattern": pattern, "definition": {n: known[n] for n in names}}
        return "set_policy", fields | {"apply_to": w.one("all", "queues", "exchanges"), "priority": priority}


def _some(**fields: Any) -> dict[str, Any]:
    """Only what is not empty."""
    return {name: value for name, value in fields.items() if value}
