"""Oracle of the message path: random client streams, and everything a broker makes of one.

A stream is made from a seed, so that two processes can be given the same one. An outcome is what the clients
read, octet for octet, and what the journal holds. Two configurations of one build must agree (`test_oracle`):
publishes and acknowledgements taken in batches, and the same stream taken frame by frame. So must two builds:

    python -m tests.hostile.oracle 2000 > here.txt     one line per seed; run it in both checkouts and compare
"""

from __future__ import annotations

import random
import sys
import zlib
from typing import Any, NamedTuple

from mirrormq.storage import journal_records
from mirrormq.storage.segment_header import DATA_AT
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import Field, Table, table_of
from mirrormq.wire.frames import FRAME_OVERHEAD, HEAD
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.hostile.in_process import Wire, make_broker

CHANNELS = (1, 2)
KEYS = ("plain", "durable", "limited", "rejecting", "expiring", "priority", "nowhere", "a.b", "a.c", "b")
EXCHANGES = ("", "", "", "amq.topic", "amq.topic", "amq.fanout", "amq.headers", "missing")

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "durable": {},
    "dead": {},
    "limited": {"x-max-length": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    "rejecting": {"x-max-length": 4, "x-overflow": "reject-publish"},
    "expiring": {"x-message-ttl": 1000, "x-dead-letter-exchange": "amq.topic"},
    "priority": {"x-max-priority": 5},
}

CONSUMED = ("plain", "durable", "dead", "expiring", "priority")
"""Queues without a limit. A full queue delivers before it drops or refuses, in the middle of a turn: the
order of deliveries from several queues then depends on how many messages came at once."""


class Outcome(NamedTuple):
    """Everything that can be seen of what a broker made of a stream."""

    said: dict[tuple[int, int], bytes]
    """Bytes that each client read, by connection and channel."""
    messages: dict[int, list[bytes]]
    """Message records of the journal by queue and sequence. A priority queue writes messages of one batch by
    priority."""
    acknowledged: dict[int, list[int]]
    """Sequences that the journal has acknowledgements of, by queue."""
    rest: dict[int, set[bytes]]
    """Delivery marks and erasures by queue. How far numbers are reserved depends on the size of batches."""

    def digest(self) -> str:
        """A short text that differs if anything differs."""
        rest = {queue: sorted(found) for queue, found in self.rest.items()}
        parts = (self.said, self.messages, self.acknowledged, rest)
        return " ".join(f"{zlib.crc32(repr(sorted(part.items())).encode()):08x}" for part in parts)


# -- streams ------------------------------------------------------------------------------------------


def setup() -> bytes:
    """Queues of all kinds, bound to exchanges of all kinds."""
    frames = []
    for name, arguments in ARGUMENTS.items():
        durable = name != "plain"
        frames.append(methods.encode_queue_declare(name, durable=durable, arguments=table_of(arguments)))
    for queue, pattern in (("plain", "a.*"), ("durable", "#"), ("limited", "b")):
        frames.append(methods.encode_queue_bind(queue, "amq.topic", pattern))
    frames += [
        methods.encode_queue_bind(queue, "amq.fanout", "") for queue in ("plain", "durable", "priority")
    ]
    frames.append(
        methods.encode_queue_bind(
            "durable", "amq.headers", "", arguments=table_of({"x-match": "any", "colour": "red"})
        )
    )
    return b"".join(method_frame(1, payload) for payload in frames)


def properties(chance: random.Random, number: int) -> bytes:
    """Properties as clients set them: often an id of their own, now and then something special."""
    headers: Table | None = None
    if chance.random() < 0.5:
        headers = table_of({"number": number, "colour": chance.choice(["red", "blue"])})
    if chance.random() < 0.15:
        assert number >= 0
        headers = headers or {}
        extra: dict[str, Field] = chance.choice(
            [
                {"CC": Field("A", [Field("S", b"plain"), Field("S", b"b")])},
                {"BCC": Field("A", [Field("S", b"durable")])},
                {"CC": Field("S", b"plain")},
                {"x-producer": Field("S", b"me"), "x-publish-id": Field("l", chance.randrange(number + 2))},
                {"nested": Field("F", table_of({"CC": ["a"], "deep": {"deeper": [1, 2.5, None, True]}}))},
                {"cc": Field("A", []), "x-producers": Field("S", b"not a producer")},
            ]
        )
        headers = {**headers, **extra}
    special = chance.random()
    return encode_properties(
        BasicProperties(
            content_type="text/plain" if chance.random() < 0.3 else None,
            headers=headers,
            delivery_mode=chance.choice([None, 1, 2, 2, 2]),
            priority=chance.choice([None, None, 0, 3, 9]),
            correlation_id=f"c{number}" if chance.random() < 0.2 else None,
            reply_to=chance.choice(["q", "amq.rabbitmq.reply-to"]) if special < 0.05 else None,
            expiration=chance.choice(["0", "500", "soon"]) if 0.05 < special < 0.12 else None,
            message_id=f"id-{number}" if chance.random() < 0.6 else None,
            timestamp=number if chance.random() < 0.3 else None,
            user_id=chance.choice(["guest", "guest", "guest", "other"]) if special > 0.95 else None,
        )
    )


def publishes(chance: random.Random, number: int) -> bytes:
    """A few publishes: alike, unlike in their properties, or unlike in everything."""
    channel = chance.choice(CHANNELS)
    like = chance.random() < 0.3
    exchange, key = chance.choice(EXCHANGES[:-1]), chance.choice(KEYS)
    if chance.random() < 0.01:
        exchange = "missing"
    own, parts = properties(chance, number), []
    for offset in range(chance.choice([1, 1, 2, 5, 12])):
        if not like:
            own = properties(chance, number + offset)
            if chance.random() < 0.7:
                exchange, key = chance.choice(EXCHANGES[:-1]), chance.choice(KEYS)
        mandatory = not like and chance.random() < 0.2
        method = methods.encode_basic_publish(exchange, key, mandatory=mandatory)
        body = bytes([97 + number % 26]) * chance.choice([0, 1, 20, 20, 20, 90])
        piece = chance.choice([0, 0, 0, 0, 0, 17])
        parts.append(method_frame(channel, method) + build_frames(channel, own, body, piece))
    return b"".join(parts)


def acknowledgements(chance: random.Random, client: Wire) -> bytes:
    """Some basic.ack in a row, mostly of deliveries that the client has."""
    number = chance.choice(CHANNELS)
    channel = client.connection.channels.get(number)
    tags = list(channel.unacked.by_tag) if channel is not None else []
    taken = chance.sample(tags, min(len(tags), chance.choice([1, 2, 6, 12])))
    if chance.random() < 0.7:
        taken.sort()
    if chance.random() < 0.1:
        taken.insert(chance.randrange(len(taken) + 1), chance.randrange(1, 30))
    acks = [methods.encode_basic_ack(tag, chance.random() < 0.03) for tag in taken]
    return b"".join(method_frame(number, payload) for payload in acks)


def other(chance: random.Random, number: int) -> bytes:
    """A method that is neither a publish nor an acknowledgement."""
    queue, consumed = chance.choice(list(ARGUMENTS)), chance.choice(CONSUMED)
    payload = chance.choice(
        [
            methods.encode_confirm_select(),
            methods.encode_confirm_select(),
            methods.encode_basic_consume(consumed, f"tag-{number}"),
            methods.encode_basic_consume(consumed, f"tag-{number}"),
            methods.encode_basic_consume(consumed, f"tag-{number}", no_ack=True),
            methods.encode_basic_qos(0, chance.choice([0, 1, 5])),
            methods.encode_basic_qos(0, 3, global_=True),
            methods.encode_basic_get(queue),
            methods.encode_basic_get(queue, no_ack=True),
            methods.encode_basic_nack(chance.randrange(1, 9), True, chance.random() < 0.5),
            methods.encode_basic_reject(chance.randrange(1, 9), chance.random() < 0.5),
            methods.encode_basic_recover(True),
            methods.encode_queue_purge(queue),
            methods.encode_queue_delete(queue),
            methods.encode_queue_unbind(queue, "amq.topic", "#"),
            methods.encode_queue_bind(queue, "amq.topic", "a.#"),
            methods.encode_tx_select(),
            methods.encode_tx_commit(),
            methods.encode_channel_open(),
            methods.encode_channel_close_ok(),
            methods.encode_channel_close(200, "bye", 0, 0),
        ]
    )
    return method_frame(chance.choice(CHANNELS), payload)


def turn_of(chance: random.Random, client: Wire, number: int) -> bytes:
    """Return the bytes that a client sends in one turn."""
    parts = []
    for at in range(chance.randrange(1, 9)):
        kind = chance.random()
        if kind < 0.6:
            parts.append(publishes(chance, number * 100 + at * 12))
        elif kind < 0.9:
            parts.append(acknowledgements(chance, client))
        else:
            parts.append(other(chance, number * 100 + at * 12))
    data = b"".join(parts)
    return mutated(chance, data) if chance.random() < 0.12 else data


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return the bytes with a few octets changed, removed, repeated or inserted."""
    octets = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(octets) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(octets):
            octets[at] = chance.randrange(256)
        elif kind == 1:
            del octets[at : at + chance.randrange(1, 20)]
        elif kind == 2:
            octets[at:at] = chance.randbytes(chance.randrange(1, 12))
        else:
            octets[at:at] = octets[at : at + chance.randrange(1, 60)]
    return bytes(octets)


# -- outcomes -----------------------------------------------------------------------------------------


def outcome(seed: int, *, batched: bool) -> Outcome:
    """Let a broker have the stream of a seed, and see what comes of it."""
    chance = random.Random(seed)
    broker = make_broker()
    witness, client = Wire(broker, 2).log_in(), Wire(broker, 3).log_in()
    witness.feed(setup())
    witness.turn()
    if chance.random() < 0.6:
        witness.feed(method_frame(2, methods.encode_channel_open()))
        witness.feed(method_frame(1, methods.encode_basic_qos(0, 7)))
        for number, queue in enumerate(("durable", "plain"), 1):
            consume = methods.encode_basic_consume(queue, "witness", no_ack=chance.random() < 0.5)
            witness.feed(method_frame(number, consume))
        witness.turn()
    opening = [method_frame(channel, methods.encode_channel_open()) for channel in CHANNELS[1:]]
    opening += [
        method_frame(channel, methods.encode_confirm_select())
        for channel in CHANNELS
        if chance.random() < 0.7
    ]
    if chance.random() < 0.7:
        opening.append(method_frame(1, methods.encode_basic_consume("durable", "own")))
        opening.append(method_frame(2, methods.encode_basic_consume("plain", "own")))
    client.feed(b"".join(opening))
    client.turn()
    client.connection._scanner.publishing = batched
    for number in range(chance.randrange(2, 7)):
        client.feed(turn_of(chance, client, number))
        client.turn()
        witness.turn()
        broker.clock.now_ms += chance.choice([0, 0, 400, 1500])
        broker.clock.run_due()
    client.turn()
    witness.turn()
    said = {**by_channel(1, client.said), **by_channel(2, witness.said)}
    return Outcome(said, *journal_of(broker))


def by_channel(connection: int, said: bytes) -> dict[tuple[int, int], bytes]:
    """The frames of each channel."""
    found: dict[tuple[int, int], bytes] = {}
    at = 0
    while at < len(said):
        _, channel, size = HEAD.unpack_from(said, at)
        after = at + size + FRAME_OVERHEAD
        found[connection, channel] = found.get((connection, channel), b"") + said[at:after]
        at = after
    return found


def journal_of(broker: Any) -> tuple[dict[int, list[bytes]], dict[int, list[int]], dict[int, set[bytes]]]:
    """Records by queue: messages, acknowledged sequences, delivery marks and erasures."""
    broker.journal.flush(sync=True)
    messages: dict[int, list[bytes]] = {}
    acknowledged: dict[int, list[int]] = {}
    rest: dict[int, set[bytes]] = {}
    for number, segment in broker.journal.segments.by_number.items():
        data = broker.journal.writer.read(number, segment.used_bytes, 0)
        at = DATA_AT
        while at < segment.used_bytes:
            length, _ = journal_records.PREFIX.unpack_from(data, at)
            body = data[at + journal_records.PREFIX_BYTES : at + journal_records.PREFIX_BYTES + length]
            at += journal_records.PREFIX_BYTES + length
            if body[0] == journal_records.MESSAGE:
                messages.setdefault(journal_records.message_head(body).queue_id, []).append(body)
            elif body[0] == journal_records.ACK:
                queue = journal_records.QUEUE_HEAD.unpack_from(body)[1]
                for first, count in journal_records.RANGE.iter_unpack(
                    body[journal_records.QUEUE_HEAD.size :]
                ):
                    acknowledged.setdefault(queue, []).extend(range(first, first + count))
            elif body[0] in (journal_records.DELIVERED, journal_records.ERASED):
                rest.setdefault(journal_records.QUEUE_HEAD.unpack_from(body)[1], set()).add(body)
    for found in messages.values():
        found.sort(key=lambda body: journal_records.message_head(body).sequence)
    return messages, {queue: sorted(numbers) for queue, numbers in acknowledged.items()}, rest


if __name__ == "__main__":
    for seed in range(int(sys.argv[1])):
        print(seed, outcome(seed, batched=True).digest())
