"""Ledger of moved messages: count and digest per queue, and the entries that make it durable.

A message is entered when the other cluster has confirmed it and before its acknowledgement leaves. So every
message that the source has forgotten is in the ledger exactly once, whenever the process is killed.

The digest is the sum of a hash per message, so it does not depend on the order of the messages.
"""

from __future__ import annotations

import hashlib
from struct import Struct

import msgspec

DIGEST_BYTES = 16
DIGEST_MODULUS = 1 << (8 * DIGEST_BYTES)

_LENGTHS = Struct(">QQQ").pack


def message_hash(exchange: str, routing_key: str, properties: bytes, body: bytes | bytearray) -> int:
    """Return the hash of one message; `properties` are without headers of the migration."""
    first = exchange.encode("utf-8", "surrogateescape")
    second = routing_key.encode("utf-8", "surrogateescape")
    state = hashlib.sha256(_LENGTHS(len(first), len(second), len(properties)))
    for part in (first, second, properties, body):
        state.update(part)
    return int.from_bytes(state.digest()[:DIGEST_BYTES], "big")


class Moved(msgspec.Struct, array_like=True):
    """Messages of one queue that were moved in one direction."""

    count: int = 0
    digest: int = 0
    flagged: int = 0
    """Messages that the source had delivered before: a consumer or an earlier attempt may have seen them."""

    def add(self, value: int, redelivered: bool) -> None:
        """Enter one message."""
        self.count += 1
        self.digest = (self.digest + value) % DIGEST_MODULUS
        self.flagged += redelivered

    @property
    def shown_digest(self) -> str:
        """Digest as hexadecimal text."""
        return f"{self.digest:0{2 * DIGEST_BYTES}x}"


QueueKey = tuple[str, str]
"""Vhost and name of a queue."""

Entry = tuple[str, str, str, int, str, int]
"""Direction, vhost, queue, count, digest and flagged messages."""


class MoveLedger:
    """Moved messages by direction and queue."""

    def __init__(self) -> None:
        self.moved: dict[tuple[str, QueueKey], Moved] = {}
        self._changed: set[tuple[str, QueueKey]] = set()

    def of(self, direction: str, queue: QueueKey) -> Moved:
        """Return the messages of a queue; zero if none moved."""
        return self.moved.get((direction, queue)) or Moved()

    def enter(self, direction: str, queue: QueueKey, value: int, redelivered: bool) -> None:
        """Enter one message."""
        key = (direction, queue)
        moved = self.moved.get(key)
        if moved is None:
            moved = self.moved[key] = Moved()
        moved.add(value, redelivered)
        self._changed.add(key)

    @property
    def is_saved(self) -> bool:
        """Report whether no entry waits to be written."""
        return not self._changed

    def changed_lines(self) -> bytes:
        """Return the new totals of the queues that changed, a line of JSON for each."""
        return b"".join(map(self._line, self._changed))

    def mark_saved(self) -> None:
        """Record that all entries are on the disk."""
        self._changed.clear()

    def all_lines(self) -> bytes:
        """Return the totals of all queues."""
        return b"".join(map(self._line, self.moved))

    def _line(self, key: tuple[str, QueueKey]) -> bytes:
        direction, (vhost, queue) = key
        moved = self.moved[key]
        entry: Entry = (direction, vhost, queue, moved.count, moved.shown_digest, moved.flagged)
        return msgspec.json.encode(entry) + b"\n"

    @classmethod
    def read(cls, content: bytes) -> MoveLedger:
        """Read a ledger's file. The last line of a queue counts; a cut last line is dropped."""
        ledger, decoder = cls(), msgspec.json.Decoder(Entry)
        for line in content[: content.rfind(b"\n") + 1].splitlines():
            direction, vhost, queue, count, digest, flagged = decoder.decode(line)
            ledger.moved[direction, (vhost, queue)] = Moved(count, int(digest, 16), flagged)
        return ledger
