"""What happens to a queue's messages, as its mirrors are told of it.

Three things happen to messages: they come, they go, and they are handed to a consumer for the first
time. Why one goes (acknowledged, expired, dropped, purged) is the master's business; a mirror only
has to hold what the master holds.

An operation is turned into bytes once, by the master. The ring keeps it and passes it on as bytes, and
each mirror reads it once, when it does the same to its copy.
"""

from __future__ import annotations

import msgspec


class AppendOperation(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Messages that share a publish payload join the queue, numbered from `first_sequence` on."""

    first_sequence: int
    publish: bytes
    persistent: bool
    expires_at: int
    """Milliseconds since the epoch; the same for all of them. 0: never."""
    contents: list[bytes]
    """Each message's content frames; its properties are in the first of them."""
    producer: str = ""
    """Through which node they came: `first_number` lets a new master know them again."""
    first_number: int = 0
    producer_ids: dict[str, int] = {}
    """How far clients that number their messages have come with these (`queues.producers`)."""


class RemoveOperation(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Messages leave the queue: ascending (first sequence, how many)."""

    ranges: list[tuple[int, int]]


class DeliveredOperation(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """Everything up to `sequence` has been with a consumer."""

    sequence: int


class DeliveredTo(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """Clients of one node, in one incarnation, have had messages up to `sequence` (`queues.kept_deliveries`);
    the empty name stands for messages that were given back."""

    holder: str
    sequence: int


class Gated(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """The master delivers only what every synchronised mirror has received, or ceases to."""

    on: bool


class ForgetOperation(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Producers are gone; what was remembered of them can be forgotten."""

    producers: list[str]


Operation = AppendOperation | RemoveOperation | DeliveredOperation | DeliveredTo | Gated | ForgetOperation

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Operation] = msgspec.msgpack.Decoder(Operation)

encode = _encoder.encode
decode = _decoder.decode
