"""Ring operations: changes of a queue's messages, as the master sends them to its mirrors.

Messages are appended, removed, and delivered to a consumer for the first time. Only the master knows the
reason of a removal (acknowledged, expired, dropped, purged); a mirror only has to hold what the master holds.

The master encodes an operation once. The ring keeps it and passes it on as bytes, and each mirror decodes it
once, when it applies the operation to its copy.
"""

from __future__ import annotations

import msgspec

from mirrormq.sequences.spans import Span


class AppendOperation(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Append of messages that were published together, numbered from `first_sequence` on."""

    first_sequence: int
    publishes: list[bytes]
    """Publish payload of each message; a single one if all messages share it."""
    persistent: bool
    expires_at: int
    """Expiry time of all these messages in milliseconds since the Unix epoch; 0: never."""
    contents: list[bytes]
    """Content frames of each message; its properties are in the first of them."""
    producer: str = ""
    """Node that the messages came through: with `first_number` a new master recognises them."""
    first_number: int = 0
    producer_ids: dict[str, int] = {}
    """Highest publish id of each producer in these messages (`queues.publish_ids`)."""
    ingested_ms: list[int] = []
    """Ingestion time of each message; a single one if all messages share it. Empty from a node that does not
    send it; the mirror then takes the time of the arrival."""

    def payloads(self) -> list[bytes]:
        """Return the publish payload of each message."""
        missing = len(self.contents) - len(self.publishes)
        return self.publishes * len(self.contents) if missing else self.publishes

    def times(self, now_ms: int) -> list[int]:
        """Return the ingestion time of each message; `now_ms` for those that have none."""
        times = [each or now_ms for each in self.ingested_ms] or [now_ms]
        return times if len(times) == len(self.contents) else times * len(self.contents)

    def single(self, offset: int, publish: bytes, ingested_ms: int) -> AppendOperation:
        """Return one of the messages as an operation of its own, with its publish payload and time."""
        return msgspec.structs.replace(
            self,
            first_sequence=self.first_sequence + offset,
            publishes=[publish],
            contents=[self.contents[offset]],
            ingested_ms=[ingested_ms],
        )


class RemoveOperation(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Removal of messages: ascending (first sequence, count)."""

    ranges: list[Span]


class DeliveredOperation(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """Delivery mark: consumers have had everything up to `sequence`."""

    sequence: int


class DeliveredTo(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """Delivery mark of one node in one incarnation: its clients have had messages up to `sequence`
    (`queues.kept_deliveries`). The empty name stands for requeued messages."""

    holder: str
    sequence: int


class Gated(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """Start or end of gated delivery: the master delivers only what every synchronised mirror has
    received."""

    on: bool


class ForgetOperation(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Removal of producers: their publish ids can be forgotten."""

    producers: list[str]


Operation = AppendOperation | RemoveOperation | DeliveredOperation | DeliveredTo | Gated | ForgetOperation

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Operation] = msgspec.msgpack.Decoder(Operation)

encode = _encoder.encode
decode = _decoder.decode
