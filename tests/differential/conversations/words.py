"""Vocabulary of random conversations: few names, so that they collide; valid, invalid and odd arguments."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.codec import Typed

QUEUES = ("a", "b", "c", "d")
EXCHANGES = ("e", "f", "g")
STANDARD = ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match")
ODD_NAMES = ("nowhere", "amq.mine", "amq.rabbitmq.trace", "a b", "é", "x" * 200)
KEYS = ("", "k", "a", "b", "k.l", "k.l.m", "#", "*", "k.*", "k.#", "*.l", "c")
TAGS = ("t", "u", "v")
LIFETIMES = (0, 100_000)
"""In milliseconds: over at once, or longer than any conversation."""
KINDS = ("direct", "fanout", "topic", "headers")

ODD_VALUES: tuple[Any, ...] = (
    True,
    False,
    0,
    1,
    -1,
    5,
    256,
    2**31,
    2**32,
    2**63 - 1,
    -(2**63),
    1.5,
    Typed("f", 1.0),
    Typed("D", (1, 15)),
    "",
    "5",
    "abc",
    b"5",
    None,
    [],
    [1, "k"],
    {},
    {"k": 1},
    Typed("s", 3),
    Typed("b", 3),
    Typed("B", 200),
    Typed("u", 3),
    Typed("i", 3),
    Typed("L", 3),
    Typed("T", 3),
    Typed("l", 3),
)

TIMERS = frozenset(["x-expires", "x-message-ttl"])
ODD_LIFETIMES: tuple[Any, ...] = (
    0,
    -1,
    315360000000,
    315360000001,
    2**63 - 1,
    True,
    1.5,
    "5",
    b"5",
    None,
    [],
    {},
)
"""Nothing that could be over in the middle of a conversation."""


class Words:
    """Chooses words by chance."""

    def __init__(self, random: Random, *, polite: bool) -> None:
        self.random = random
        self.odd = 0.1 if polite else 1.0
        """Probability of a mistake. Mistakes end channels, so few of them make longer conversations."""

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def mistake(self, probability: float) -> bool:
        return self.chance(probability * self.odd)

    def one(self, *things: Any) -> Any:
        return self.random.choice(things)

    def queue(self) -> str:
        odd = self.mistake(0.06)
        return str(self.one(*ODD_NAMES, "") if odd else self.one(*QUEUES, *QUEUES[:2]))

    def exchange(self) -> str:
        at = self.random.random()
        if self.mistake(0.05):
            return str(self.one(*ODD_NAMES))
        return str(self.one(*EXCHANGES) if at < 0.6 else self.one(*STANDARD) if at < 0.75 else "")

    def own_exchange(self) -> str:
        return str(self.one(*ODD_NAMES, *STANDARD, "") if self.mistake(0.06) else self.one(*EXCHANGES))

    def key(self) -> str:
        return str(self.one(*KEYS))

    def flags(self, **likely: float) -> dict[str, bool]:
        return {name: True for name, probability in likely.items() if self.chance(probability)}

    def queue_arguments(self) -> dict[str, Any]:
        one = self.one
        known: dict[str, Any] = {
            "x-message-ttl": lambda: one(*LIFETIMES),
            "x-expires": lambda: one(100000, 315360000000),
            "x-max-length": lambda: one(0, 1, 2, 3),
            "x-max-length-bytes": lambda: one(0, 5, 10),
            "x-overflow": lambda: one("drop-head", "reject-publish", "reject-publish-dlx"),
            "x-dead-letter-exchange": lambda: one("", "", "", *EXCHANGES, "amq.fanout", "nowhere"),
            "x-dead-letter-routing-key": lambda: one(*QUEUES, "k"),
            "x-max-priority": lambda: one(1, 2, 3, 255, 0),
            "x-single-active-consumer": lambda: one(True, True, False),
            "x-queue-mode": lambda: one("lazy", "default"),
            "x-queue-type": lambda: "classic",
            "x-queue-version": lambda: one(1, 2),
            "x-unknown": lambda: one(*ODD_VALUES),
        }
        arguments = {name: make() for name, make in known.items() if self.chance(0.13)}
        if "x-dead-letter-routing-key" in arguments and not self.mistake(0.2):
            arguments.setdefault("x-dead-letter-exchange", "")
        if self.mistake(0.2):
            name = one(*known)
            arguments[name] = one(*(ODD_LIFETIMES if name in TIMERS else ODD_VALUES), "no-such-type")
        if self.mistake(0.03):
            arguments[one("x-max-age", "x-delivery-limit", "x-queue-leader-locator")] = one(*ODD_VALUES)
        return arguments

    def exchange_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.chance(0.3):
            arguments["alternate-exchange"] = self.one(*EXCHANGES, "amq.fanout", "", "nowhere")
        if self.mistake(0.1):
            arguments[self.one("alternate-exchange", "x-unknown")] = self.one(*ODD_VALUES)
        return arguments

    def binding_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.chance(0.3):
            arguments["x-match"] = self.one("all", "any", "all-with-x", "any-with-x")
        for name in ("h", "x-h"):
            if self.chance(0.25):
                arguments[name] = self.one(1, "1", True, None, 1.0)
        if self.mistake(0.1):
            arguments[self.one("x-match", "h")] = self.one(*ODD_VALUES)
        return arguments

    def consume_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.chance(0.15):
            arguments["x-priority"] = self.one(0, 1, 2, -1, 10)
        if self.mistake(0.08):
            arguments[self.one("x-priority", "x-unknown", "x-cancel-on-ha-failover", "x-stream-offset")] = (
                self.one(*ODD_VALUES)
            )
        return arguments

    def properties(self) -> dict[str, Any]:
        one = self.one
        known: dict[str, Any] = {
            "delivery_mode": lambda: one(0, 3) if self.mistake(0.3) else one(1, 2),
            "priority": lambda: one(0, 1, 2, 3, 255),
            "expiration": lambda: str(one(*LIFETIMES)),
            "user_id": lambda: "other" if self.mistake(0.3) else "guest",
            "message_id": lambda: one("m", ""),
            "type": lambda: "t",
            "app_id": lambda: "app",
            "correlation_id": lambda: "c",
            "reply_to": lambda: "amq.rabbitmq.reply-to" if self.mistake(0.5) else "a",
            "content_type": lambda: "text/plain",
            "content_encoding": lambda: "utf-8",
            "timestamp": lambda: one(0, 1000),
        }
        properties = {name: make() for name, make in known.items() if self.chance(0.07)}
        if self.chance(0.2):
            properties["priority"] = one(0, 1, 2, 3)
        if self.mistake(0.04):
            properties["expiration"] = one("", "-1", "1.5", "abc", "1 ", "0x1", "99999999999999999999", "+5")
        if self.chance(0.3):
            properties["headers"] = self.headers()
        return properties

    def headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = {}
        for name in ("h", "x-h"):
            if self.chance(0.3):
                headers[name] = self.one(1, "1", True, None, 1.0)
        for name in ("CC", "BCC"):
            if self.chance(0.25):
                headers[name] = [self.one(*KEYS) for _ in range(self.one(0, 1, 1, 2))]
            elif self.mistake(0.03):
                headers[name] = self.one(*ODD_VALUES)
        if self.chance(0.08):
            headers["x-death"] = [self.death() for _ in range(self.one(1, 2, 2, 3, 4))]
        if self.chance(0.03):
            headers[self.one("x-first-death-queue", "x-first-death-reason", "x-match")] = self.one(*QUEUES)
        if self.mistake(0.06):
            headers[self.one("x-death", "x-first-death-queue", "x-delay", "h")] = self.one(*ODD_VALUES)
        return headers

    def death(self) -> dict[str, Any]:
        """An entry of x-death such as the broker writes, more or less."""
        entry: dict[str, Any] = {
            "queue": self.one(*QUEUES[:2]),
            "reason": self.one("rejected", "expired", "maxlen"),
            "count": Typed("l", self.one(1, 2, 7)),
            "exchange": self.one("", "e"),
            "routing-keys": [self.one(*KEYS)],
        }
        return {name: value for name, value in entry.items() if not self.chance(0.15)}
