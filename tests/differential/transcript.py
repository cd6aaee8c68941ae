"""Transcript of a script as lines of text; named rules remove legitimate differences.

Rules (each is applied as a line is written, so transcripts hold no trace of the broker or of the run):

- *generated names*: `amq.gen-…`, `amq.ctag-…` and direct reply-to addresses become `amq.gen-#1`, … in order
  of first appearance in the script;
- *ports, pids, clocks*: table entries whose value is a process, port, time or node (VOLATILE_KEYS) keep key
  and type and lose their value; so do timestamps later than 2001;
- *node names*: `name@host` of the broker under test becomes NODE;
- *product*: product, version, platform… of server properties lose their values, and MirrorMQ's own two extra
  entries are left out;
- *table order*: entries are written in key order, as no client can tell;
- *line wrapping*: Erlang breaks long terms inside reply texts over lines; the breaks are taken out;
- *confirm aggregation*: acks and nacks with `multiple` are written as sets of single tags;
- *ends*: an abrupt reset and an orderly end of the socket are both `EOF`.
"""

from __future__ import annotations

import re
from typing import Any

from tests.differential.codec import METHODS, Method, Typed, typed

VOLATILE_KEYS = frozenset(
    [
        "pid",
        "owner_pid",
        "connection",
        "user_who_performed_action_pid",
        "timestamp_in_ms",
        "time",
        "node",
        "peer_port",
        "port",
        "connected_at",
        "connection_name",
        "name_of_connection",
        "channel_pid",
    ]
)
PRODUCT_KEYS = frozenset(["product", "version", "platform", "copyright", "information", "cluster_name"])
OUR_EXTRA_KEYS = frozenset({"broker", "broker_version"})
PLAUSIBLE_CLOCK = 1_000_000_000
GENERATED = re.compile(
    r"amq\.rabbitmq\.reply-to\.[A-Za-z0-9+/=_-]+(?:\.[A-Za-z0-9+/=_-]+)?"
    r"|amq\.(?:gen|ctag)-[A-Za-z0-9_-]{22}"
)
CONNECTION_NAME = re.compile(r"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+")
LINE_WRAP = re.compile(r"\\x0a +")
LONG_BODY = 80

CAPABILITIES: dict[str, Any] = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}
"""Default client capabilities of the scripts."""


class Transcript:
    """The lines of one run of one script."""

    def __init__(self, node_name: str) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}
        self._node = re.compile(re.escape(node_name))

    def add(self, line: str) -> None:
        line = GENERATED.sub(self._number, line)
        line = LINE_WRAP.sub("", line)
        line = CONNECTION_NAME.sub("CONNECTION", line)
        self.lines.append(self._node.sub("NODE", line))

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def _number(self, match: re.Match[str]) -> str:
        found = match.group()
        if found not in self._names:
            family = re.match(r"amq\.rabbitmq\.reply-to|amq\.\w+", found)
            assert family is not None
            kind = family.group()
            count = sum(1 for known in self._names.values() if known.startswith(kind)) + 1
            self._names[found] = f"{kind}-#{count}"
        return self._names[found]


def show(value: Any, key: str = "") -> str:
    """One table value: strings quoted, everything else behind its type octet."""
    octet, plain = typed(value)
    if key in VOLATILE_KEYS:
        return f"{octet}:<{key}>"
    if octet == "F":
        return show_table(plain)
    if octet == "A":
        return "[" + ", ".join(show(item) for item in plain) + "]"
    if octet == "S":
        return quote(plain)
    if octet == "x":
        return f"x:{plain!r}"
    if octet == "t":
        return "true" if plain else "false"
    if octet == "V":
        return "void"
    if octet == "T" and plain > PLAUSIBLE_CLOCK:
        return "T:<now>"
    return f"{octet}:{plain}"


def quote(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in data) + '"'


def show_table(entries: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {show(entries[key], key)}" for key in sorted(entries)) + "}"


def show_server_properties(entries: dict[str, Typed]) -> str:
    kept = {key: value for key, value in entries.items() if key not in OUR_EXTRA_KEYS}
    shown = (f"{key}: " + ("S:<product>" if key in PRODUCT_KEYS else show(kept[key])) for key in sorted(kept))
    return "{" + ", ".join(shown) + "}"


def show_field(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if name == "mechanisms":  # a set: RabbitMQ was seen to name the same ones in two orders
        value = " ".join(sorted(value.decode().split() if isinstance(value, bytes) else value.split()))
    if name == "client-properties" and value == {"capabilities": CAPABILITIES}:
        return "client-properties=<usual>"
    if isinstance(value, dict):
        return f"{name}=" + (
            show_server_properties(value) if name == "server-properties" else show_table(value)
        )
    if isinstance(value, bytes) and name == "arguments":
        return f"{name}=raw {value.hex(' ')}"
    if isinstance(value, str | bytes):
        return f"{name}={quote(value)}"
    if name == "timestamp" and value > PLAUSIBLE_CLOCK:
        return "timestamp=<now>"
    return f"{name}={value}"


def show_sent(name: str, fields: dict[str, Any]) -> str:
    """A sent method: only what the script chose to say."""
    return " ".join([name, *(show_field(key, value) for key, value in fields.items())])


def show_received(method: Method) -> str:
    """A received method: every field."""
    return " ".join(
        [method.name, *(show_field(key, method.fields[key]) for key, _ in METHODS[method.name].fields)]
    )


def show_content(properties: dict[str, Any], body: bytes) -> str:
    shown = " ".join(show_field(key, properties[key]) for key in sorted(properties))
    if len(body) > LONG_BODY:
        return f"{{{shown}}} body of {len(body)} octets {quote(body[:20])}…"
    return f"{{{shown}}} {quote(body)}"


def show_tags(tags: set[int]) -> str:
    """Delivery tags as ranges: 1-3,5."""
    parts: list[list[int]] = []
    for tag in sorted(tags):
        if parts and parts[-1][1] == tag - 1:
            parts[-1][1] = tag
        else:
            parts.append([tag, tag])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts) or "none"
