"""Messages between the node of a client and the master of a queue.

All items travel in stream frames, numbered per pair of nodes and incarnations (`peers.stream`). An item
belongs to one queue in one epoch and carries a batch: messages are never packed one by one, and never parsed.

    from the client's node              from the master's node
    Publish                             Settled
    Subscribe, Unsubscribe, Credit      Subscribed, Activated, Deliver
    Settle, ClaimDeliveries             SettlementsReplicated
    QueueRequest, RangeQuery            QueueReply, Got, RangeQueryReply, RemoteRefusal
    Touch, DeliveredBefore

    from any node to any
    DirectReply, DirectReplyQuery, DirectReplyKnown
    FetchMessages, FetchedMessages
"""

from __future__ import annotations

import msgspec

from mirrormq.peers.stream import Stream
from mirrormq.peers.stream_frames import StreamFrame, StreamHello
from mirrormq.peers.streams import Streams
from mirrormq.queues.consumer_turns import ConsumerDescription
from mirrormq.sequences.spans import Interval


class RemoteRun(msgspec.Struct, frozen=True, array_like=True):
    """Batch of messages that share a basic.publish payload."""

    publish: bytes
    properties: bytes | None
    """Common properties, or None if they differ; the contents include them anyway."""
    contents: list[bytes]
    hidden_keys: tuple[str, ...] = ()
    """Routing keys of the BCC header, which the contents do not include."""
    persistent: bool = False
    priorities: list[int] = []
    """Priority of each message, if their properties differ; empty if all are 0."""
    redelivered: bool = False
    """Messages were sent to an earlier master, which may have delivered them."""
    producer_ids: bool = False
    """Messages are deduplicated by publish id."""


class DeliveredRun(msgspec.Struct, frozen=True, array_like=True):
    """Batch of messages for a consumer that share a basic.publish payload."""

    publish: bytes
    properties: bytes | None
    contents: list[bytes]
    sequences: list[int]
    redelivered: bool


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """Messages for a queue, numbered from `first_number` on by their producer."""

    queue_id: int
    epoch: int
    producer: str
    first_number: int
    runs: list[RemoteRun]


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Result of publishes: intervals that are safe, and numbers that the queue refused."""

    queue_id: int
    epoch: int
    kept: list[Interval]
    refused: list[int]
    congested: bool
    """Publishers may pause for a moment."""


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """Request to add a consumer; the reply is Subscribed or RemoteRefusal."""

    queue_id: int
    epoch: int
    request_id: int
    """Request key, which also identifies the consumer between the two nodes."""
    exclusive: bool
    priority: int
    granted: int
    """Number of messages that the consumer may be sent (see Credit)."""
    description: ConsumerDescription


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, tag="u"):
    """Removal of a consumer; its node still settles the deliveries that it holds."""

    queue_id: int
    epoch: int
    consumer: int


class Credit(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Total number of messages that a consumer may be sent, and total bytes that its client has received."""

    queue_id: int
    epoch: int
    consumer: int
    granted: int
    taken_bytes: int


class Settle(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """Settlements of deliveries, as intervals of sequences."""

    queue_id: int
    epoch: int
    acknowledged: list[Interval]
    requeued: list[Interval]
    rejected: list[Interval]


class ClaimDeliveries(msgspec.Struct, frozen=True, array_like=True, tag="keep"):
    """Sequences that clients of the node hold or have settled, from an earlier master (`queues.claims`). The
    settlements follow as Settle."""

    queue_id: int
    epoch: int
    sequences: list[Interval]


class SettlementsReplicated(msgspec.Struct, frozen=True, array_like=True, tag="kept"):
    """Report that the first `count` Settle items of the node in this epoch are in the ring."""

    queue_id: int
    epoch: int
    count: int


class QueueRequest(msgspec.Struct, frozen=True, array_like=True, tag="q"):
    """Request of kind get, count, purge or delete."""

    queue_id: int
    epoch: int
    request_id: int
    kind: str
    if_unused: bool = False
    if_empty: bool = False


class RangeQuery(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """Range or lease request as the client sent it; the reply is RangeQueryReply or RemoteRefusal."""

    queue_id: int
    epoch: int
    request_id: int
    headers: bytes
    body: bytes
    user: str


class Touch(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """Report that the queue is in use."""

    queue_id: int
    epoch: int


class DeliveredBefore(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """Report that consumers of the node had messages up to `sequence` from an earlier master."""

    queue_id: int
    epoch: int
    sequence: int
    unclaimed_up_to: int | None = None
    """Highest sequence of a delivery that the claim behind this report may lack. None: it may lack all, or
    the node is of a version without this field."""


class Subscribed(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """Reply to Subscribe: the consumer has joined."""

    queue_id: int
    epoch: int
    request_id: int


class Activated(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """Report that the consumer became the single active one, or ceased to be."""

    queue_id: int
    epoch: int
    consumer: int
    active: bool


class Deliver(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """Messages for a consumer."""

    queue_id: int
    epoch: int
    consumer: int
    runs: list[DeliveredRun]


class QueueReply(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Reply to QueueRequest (count, purge, delete) with the requested numbers."""

    queue_id: int
    epoch: int
    request_id: int
    numbers: list[int]


class Got(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """Reply to QueueRequest (get): a message or None, and the number of ready messages behind it."""

    queue_id: int
    epoch: int
    request_id: int
    run: DeliveredRun | None
    left: int


class RangeQueryReply(msgspec.Struct, frozen=True, array_like=True, tag="z"):
    """Reply to RangeQuery, as the client receives it."""

    queue_id: int
    epoch: int
    request_id: int
    headers: bytes
    body: bytes


class RemoteRefusal(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """Error reply to a request, for the client."""

    queue_id: int
    epoch: int
    request_id: int
    code: int
    explanation: str
    reason: str = ""
    """Machine-readable reason (`ranges.error_reasons`); empty if the error has none."""


class DirectReply(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    """Direct replies to a channel of the other node."""

    name: str
    run: RemoteRun


class DirectReplyQuery(msgspec.Struct, frozen=True, array_like=True, tag="h"):
    """Request whether a channel of the other node waits for direct replies under this name."""

    request_id: int
    name: str


class DirectReplyKnown(msgspec.Struct, frozen=True, array_like=True, tag="i"):
    """Reply to DirectReplyQuery."""

    request_id: int
    known: bool


class FetchMessages(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """Request for intact copies of messages that are damaged on the disk of the requesting node."""

    queue_id: int
    sequences: list[int]


class StoredMessage(msgspec.Struct, frozen=True, array_like=True):
    """Message as a journal keeps it."""

    sequence: int
    publish: bytes
    content: bytes
    expires_at: int
    ingested_ms: int


class FetchedMessages(msgspec.Struct, frozen=True, array_like=True, tag="fetched"):
    """Reply to FetchMessages with the messages that have an intact copy, as many as fit."""

    queue_id: int
    messages: list[StoredMessage]


ToMaster = (
    Publish | Subscribe | Unsubscribe | Credit | Settle | QueueRequest | RangeQuery | Touch | DeliveredBefore
    | ClaimDeliveries
)  # fmt: skip
ToOrigin = (
    Settled
    | Subscribed
    | Activated
    | Deliver
    | QueueReply
    | Got
    | RangeQueryReply
    | RemoteRefusal
    | SettlementsReplicated
)
AboutReplies = DirectReply | DirectReplyQuery | DirectReplyKnown
AboutRepairs = FetchMessages | FetchedMessages
Item = ToMaster | ToOrigin | AboutReplies | AboutRepairs

RemoteMessage = StreamHello | StreamFrame[Item]
"""Message of the remote protocol on a peer link."""

ItemStream = Stream[Item]
ItemStreams = Streams[Item]
