"""Every argument of queue.declare: wrong types, wrong values, and another value than before."""

from __future__ import annotations

from typing import Any

from tests.differential.codec import Typed
from tests.differential.context import Context
from tests.differential.runner import script

NUMBERS = ("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority")
STRINGS = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-overflow",
    "x-queue-mode",
    "x-queue-type",
)
VALUES: dict[str, Any] = {
    "negative": -1,
    "zero": 0,
    "one": 1,
    "huge": 2**32,
    "beyond_timers": 2**40,
    "string": "5",
    "float": 5.0,
    "boolean": True,
    "void": None,
    "table": {},
    "array": [],
    "short_int": Typed("s", 5),
    "octet": Typed("b", 5),
    "long": Typed("l", 5),
    "unsigned": Typed("i", 5),
    "timestamp": Typed("T", 5),
}


def slug(argument: str) -> str:
    return argument.removeprefix("x-").replace("-", "_")


for _argument in NUMBERS:

    @script(name=f"argument_{slug(_argument)}_values")
    def _values(c: Context, argument: str = _argument) -> None:
        """Try numbers and types, each on a channel and queue of its own."""
        for name, value in VALUES.items():
            c.channel().queue(f"q {name}", {argument: value})


for _argument in STRINGS:

    @script(name=f"argument_{slug(_argument)}_wrong_types")
    def _types(c: Context, argument: str = _argument) -> None:
        extra = {"x-dead-letter-exchange": "amq.fanout"} if argument == "x-dead-letter-routing-key" else {}
        values: tuple[Any, ...] = (5, True, None, {}, b"bytes", "", "nonsense")
        for value in values:
            c.channel().queue(f"q {value!r}", {argument: value, **extra})


CHANGES: dict[str, tuple[Any, Any]] = {
    "x-message-ttl": (60000, 60001),
    "x-expires": (60000, 60001),
    "x-max-length": (10, 11),
    "x-max-length-bytes": (10, 11),
    "x-max-priority": (5, 6),
    "x-dead-letter-exchange": ("one", "two"),
    "x-overflow": ("drop-head", "reject-publish"),
    "x-queue-mode": ("lazy", "default"),
    "x-single-active-consumer": (True, False),
    "x-queue-master-locator": ("min-masters", "random"),
    "x-queue-type": ("classic", "classic"),
}
for _argument, (_before, _after) in CHANGES.items():

    @script(name=f"argument_{slug(_argument)}_changed")
    def _changed(c: Context, argument: str = _argument, before: Any = _before, after: Any = _after) -> None:
        """Declared again with another value, then without it, then with it where it was not."""
        c.channel().queue("q", {argument: before})
        c.channel().queue("q", {argument: before})
        c.channel().queue("q", {argument: after})
        c.channel().queue("q")
        c.channel().queue("without")
        c.channel().queue("without", {argument: before})


@script
def argument_dead_letter_routing_key_changed(c: Context) -> None:
    exchange = {"x-dead-letter-exchange": "amq.fanout"}
    c.channel().queue("q", exchange | {"x-dead-letter-routing-key": "one"})
    c.channel().queue("q", exchange | {"x-dead-letter-routing-key": "two"})
    c.channel().queue("q", exchange)


@script
def argument_dead_letter_routing_key_without_exchange(c: Context) -> None:
    c.channel().queue("q", {"x-dead-letter-routing-key": "k"})


@script
def argument_number_type_changed(c: Context) -> None:
    """An equal number of another integer type is an equal argument."""
    c.channel().queue("q", {"x-message-ttl": Typed("I", 60000)})
    c.channel().queue("q", {"x-message-ttl": Typed("l", 60000)})
    c.channel().queue("q", {"x-message-ttl": Typed("i", 60000)})
    c.channel().queue("q", {"x-message-ttl": "60000"})


@script
def argument_overflow_values(c: Context) -> None:
    for value in ("drop-head", "reject-publish", "reject-publish-dlx", "drop-tail"):
        c.channel().queue(f"q {value}", {"x-overflow": value})


@script
def argument_queue_mode_values(c: Context) -> None:
    for value in ("default", "lazy", "eager"):
        c.channel().queue(f"q {value}", {"x-queue-mode": value})


@script
def argument_queue_master_locator_values(c: Context) -> None:
    for value in ("client-local", "min-masters", "random"):
        c.channel().queue(f"q {value}", {"x-queue-master-locator": value})


@script
def argument_single_active_consumer_values(c: Context) -> None:
    for value in (True, False, 1, "true"):
        c.channel().queue(f"q {value}", {"x-single-active-consumer": value})


@script
def argument_queue_type_unknown(c: Context) -> None:
    c.channel().queue("q", {"x-queue-type": "nonsense"}, durable=True)


@script
def argument_priority_limit(c: Context) -> None:
    for value in (1, 10, 255, 256):
        c.channel().queue(f"q {value}", {"x-max-priority": value})


@script
def argument_unknown(c: Context) -> None:
    """Arguments nobody knows are kept and not compared."""
    c.channel().queue("q", {"x-nonsense": 5, "note": "one"})
    c.channel().queue("q", {"x-nonsense": 6})


@script
def argument_queue_version(c: Context) -> None:
    for value in (1, 2, 3, "2"):
        c.channel().queue(f"q {value}", {"x-queue-version": value})


@script
def argument_ha_policy_ignored(c: Context) -> None:
    c.channel().queue("q", {"x-ha-policy": "all"})


@script
def argument_expires_on_exclusive(c: Context) -> None:
    c.channel().queue("q", {"x-expires": 60000}, exclusive=True)


@script
def argument_exclusive_durable(c: Context) -> None:
    c.channel().queue("q", durable=True, exclusive=True, auto_delete=True)
