"""Properties the broker reads (CC, BCC, user-id, priority, delivery mode) and those it only carries."""

from __future__ import annotations

import struct
from typing import Any

from tests.differential import codec
from tests.differential.codec import BODY, HEADER, METHOD, Typed
from tests.differential.context import Context
from tests.differential.runner import script

EVERY_TYPE: dict[str, Any] = {
    "t": True,
    "b": Typed("b", -5),
    "B": Typed("B", 250),
    "s": Typed("s", -500),
    "u": Typed("u", 65000),
    "I": Typed("I", -70000),
    "i": Typed("i", 4000000000),
    "l": Typed("l", -(2**40)),
    "f": Typed("f", 0.5),
    "d": 0.1,
    "D": Typed("D", (2, 314)),
    "S": "text",
    "x": b"\x00\xff",
    "T": Typed("T", 99),
    "V": None,
    "F": {"inner": {"innermost": [1, "two", [3.0]]}},
    "A": [1, "two", {"three": None}, []],
    "": "empty name",
}


@script
def properties_all_carried(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish(
        "",
        "q",
        "x",
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"h": 1},
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="100000",
        message_id="m",
        timestamp=1234,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="cl",
    )
    ch.get("q", no_ack=True)


@script
def headers_every_field_type(c: Context) -> None:
    """Carried through untouched."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", headers=EVERY_TYPE)
    ch.get("q", no_ack=True)


@script
def headers_every_field_type_re_encoded(c: Context) -> None:
    """Dead-lettering takes the headers apart and puts them together again."""
    ch = c.channel()
    ch.queue("dead")
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish("", "q", "x", headers=EVERY_TYPE)
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def arguments_every_field_type(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {f"y-{key}": value for key, value in EVERY_TYPE.items()})
    ch.queue("q", {f"y-{key}": value for key, value in EVERY_TYPE.items()})


@script
def header_unusual_field_types(c: Context) -> None:
    """Type L is read as a signed number, type Z as nothing at all."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", headers={"a": Typed("L", 5)})
    ch.get("q", no_ack=True)
    ch.publish("", "q", "y", headers={"a": Typed("Z", b"\0\0\0\0")})
    ch.send("basic.qos", prefetch_count=1)
    ch.read()


@script
def property_flags_continued(c: Context) -> None:
    """The lowest flag bit promises another flag word."""
    ch = c.channel()
    ch.queue("q")
    header = struct.pack(">HHQHH", 60, 0, 1, 1, 0)
    c.connection.send_raw(
        codec.frame(METHOD, 1, codec.encode_method("basic.publish", {"routing-key": "q"}))
        + codec.frame(HEADER, 1, header)
        + codec.frame(BODY, 1, b"x"),
        "publish with two flag words",
    )
    ch.send("basic.qos", prefetch_count=1)
    ch.read()


@script
def property_unknown_flag(c: Context) -> None:
    """Bit 1 of the flags belongs to no property."""
    ch = c.channel()
    ch.queue("q")
    header = struct.pack(">HHQH", 60, 0, 1, 2)
    c.connection.send_raw(
        codec.frame(METHOD, 1, codec.encode_method("basic.publish", {"routing-key": "q"}))
        + codec.frame(HEADER, 1, header)
        + codec.frame(BODY, 1, b"x"),
        "publish with flag bit 1",
    )
    ch.send("basic.qos", prefetch_count=1)
    ch.read()


@script
def cc_routes_to_more_keys(c: Context) -> None:
    ch = c.channel()
    for queue in ("q1", "q2", "q3"):
        ch.queue(queue)
    ch.publish("", "q1", "x", headers={"CC": ["q2", "nobody"], "BCC": ["q3"], "other": 1}, mandatory=True)
    c.settle()
    for queue in ("q1", "q2", "q3"):
        ch.get(queue, no_ack=True)


@script
def cc_alone_is_a_route(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "nobody", "x", headers={"CC": ["q"]}, mandatory=True)
    c.settle()
    ch.get("q", no_ack=True)


@script
def cc_same_queue_twice(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", headers={"CC": ["q", "q"], "BCC": ["q"]})
    ch.passive("q")


@script
def cc_not_an_array(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", headers={"CC": "q"})
    c.settle()


@script
def bcc_not_an_array(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", headers={"BCC": 5})
    c.settle()


@script
def cc_with_other_types_inside(c: Context) -> None:
    """Entries that are not strings are passed over."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "nobody", "x", headers={"CC": [5, None, "q"]}, mandatory=True)
    c.settle()


@script
def bcc_is_removed(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", headers={"BCC": ["elsewhere"]})
    ch.get("q", no_ack=True)


@script
def bcc_in_return(c: Context) -> None:
    ch = c.channel()
    ch.publish("", "nobody", "x", headers={"BCC": ["elsewhere"], "CC": ["neither"]}, mandatory=True)
    ch.read()


@script
def user_id_right(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", user_id="guest")
    ch.get("q", no_ack=True)


@script
def user_id_wrong(c: Context) -> None:
    ch = c.channel()
    ch.publish("", "q", "x", user_id="somebody")
    ch.read()


@script
def user_id_impersonator(c: Context) -> None:
    c.admin.add_user("actor", "secret", "impersonator")
    c.admin.set_permissions("actor", ".*", ".*", ".*")
    ch = c.channel(c.connect("actor", "secret"))
    ch.queue("q")
    ch.publish("", "q", "x", user_id="somebody")
    ch.get("q", no_ack=True)


@script
def delivery_mode_values(c: Context) -> None:
    c.channel().queue("q", durable=True)
    for mode in (0, 1, 2, 3, 255):
        ch = c.channel()
        ch.publish("", "q", str(mode), delivery_mode=mode)
        c.settle(on=[ch])
    ch = c.channel()
    for _ in range(3):
        ch.get("q", no_ack=True)


@script
def priority_order(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-max-priority": 10})
    for priority in (0, 5, 10, 1, 5):
        ch.publish("", "q", f"priority {priority}", priority=priority)
    ch.publish("", "q", "no priority")
    ch.wait_for_hidden_confirms()
    for _ in range(6):
        ch.get("q", no_ack=True)


@script
def priority_above_maximum(c: Context) -> None:
    """Priorities above the queue's highest count as the highest."""
    ch = c.channel()
    ch.queue("q", {"x-max-priority": 2})
    for priority in (2, 200, 1, 255):
        ch.publish("", "q", f"priority {priority}", priority=priority)
    ch.wait_for_hidden_confirms()
    for _ in range(4):
        ch.get("q", no_ack=True)


@script
def priority_requeue(c: Context) -> None:
    """A requeued message goes back in front of its own priority."""
    ch = c.channel()
    ch.queue("q", {"x-max-priority": 5})
    for text, priority in (("a", 1), ("b", 1), ("c", 5)):
        ch.publish("", "q", text, priority=priority)
    ch.wait_for_hidden_confirms()
    ch.get("q")
    ch.get("q")
    ch.publish("", "q", "d", priority=5)
    ch.wait_for_hidden_confirms()
    ch.nack(2, multiple=True, requeue=True)
    for _ in range(4):
        ch.get("q", no_ack=True)


@script
def priority_without_queue_priority(c: Context) -> None:
    """An ordinary queue does not look at it."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "low", priority=0)
    ch.publish("", "q", "high", priority=9)
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)


@script
def priority_to_consumer(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-max-priority": 5})
    ch.qos(1)
    for priority in (1, 3, 5):
        ch.publish("", "q", str(priority), priority=priority)
    ch.wait_for_hidden_confirms()
    ch.consume("q", "t")
    for tag in (1, 2, 3):
        ch.read()
        ch.ack(tag)


@script
def property_longest_strings(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", content_type="c" * 255, message_id="m" * 255, headers={"k" * 128: "v" * 1000})
    ch.get("q", no_ack=True)


@script
def timestamp_zero(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", timestamp=0)
    ch.get("q", no_ack=True)
