"""What the node of a client and the master of a queue say to each other.

Everything travels in *parcels*, numbered per pair of nodes and life (`remote.stream`). An item is about one
queue in one epoch and carries a batch: messages are never packed one by one, and never taken apart.

    from the client's node              from the master's node
    Publish                             Settled
    Subscribe, Unsubscribe, Credit      Subscribed, Activated, Deliver
    Settle, ClaimDeliveries             Answer, Got, Inquired, Refusal, SettlementsReplicated
    Ask, Inquire, Touch,                (Reply, DirectReplyQuery, DirectReplyKnown go from any node to any)
    DeliveredBefore                     (FetchMessages, FetchedMessages too)
"""

from __future__ import annotations

import msgspec

from mirrormq.queues.consumer_turns import ConsumerDescription

Range = tuple[int, int]
"""The first number, and the last."""


class RemoteRun(msgspec.Struct, frozen=True, array_like=True):
    """Messages that share a basic.publish payload."""

    publish: bytes
    properties: bytes | None
    """What they have in common, or None if each has its own: they are in the contents anyway."""
    contents: list[bytes]
    hidden_keys: tuple[str, ...] = ()
    """BCC: of them no trace is left in the contents."""
    persistent: bool = False
    priorities: list[int] = []
    """Where each has properties of its own, what a queue must know of them; no priorities if all are 0."""
    redelivered: bool = False
    """They were sent to an earlier master, which may have given them to consumers."""
    producer_ids: bool = False
    """Their publisher numbers them, and they are to be kept once."""


class DeliveredRun(msgspec.Struct, frozen=True, array_like=True):
    """The same on its way to a consumer."""

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
    """What has become of publishes: these are safe, those would not be taken."""

    queue_id: int
    epoch: int
    kept: list[Range]
    refused: list[int]
    congested: bool
    """Publishers may rest for a moment."""


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """A consumer would like to join; answered by Subscribed or Refusal."""

    queue_id: int
    epoch: int
    question: int
    """Also the consumer's name between the two nodes."""
    exclusive: bool
    priority: int
    granted: int
    """See Credit."""
    description: ConsumerDescription


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, tag="u"):
    """A consumer leaves; what it holds stays with its node."""

    queue_id: int
    epoch: int
    consumer: int


class Credit(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """How many messages a consumer may be sent in all, and how many bytes its client has been given."""

    queue_id: int
    epoch: int
    consumer: int
    granted: int
    taken_bytes: int


class Settle(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """What consumers have decided about deliveries, as sequence numbers."""

    queue_id: int
    epoch: int
    acknowledged: list[Range]
    requeued: list[Range]
    rejected: list[Range]


class ClaimDeliveries(msgspec.Struct, frozen=True, array_like=True, tag="keep"):
    """Sequences that clients of the node hold or have settled, from an earlier master (`queues.claims`). The
    settlements follow as Settle."""

    queue_id: int
    epoch: int
    sequences: list[Range]


class SettlementsReplicated(msgspec.Struct, frozen=True, array_like=True, tag="kept"):
    """The first `count` Settle items of the node in this epoch are in the ring."""

    queue_id: int
    epoch: int
    count: int


class QueueRequest(msgspec.Struct, frozen=True, array_like=True, tag="q"):
    """A question: get, count, purge or delete."""

    queue_id: int
    epoch: int
    question: int
    kind: str
    if_unused: bool = False
    if_empty: bool = False


class RangeQuery(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A question about ranges or leases, as the client has asked it; answered by Inquired or Refusal."""

    queue_id: int
    epoch: int
    question: int
    headers: bytes
    body: bytes
    user: str


class Touch(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """The queue is in use."""

    queue_id: int
    epoch: int


class DeliveredBefore(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """Consumers of the node had messages up to this one from an earlier master."""

    queue_id: int
    epoch: int
    sequence: int


class Subscribed(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """The consumer has joined."""

    queue_id: int
    epoch: int
    question: int


class Activated(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """The consumer became the single active one, or ceased to be."""

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
    """The numbers that were asked for."""

    queue_id: int
    epoch: int
    question: int
    numbers: list[int]


class Got(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """A message that was asked for, or none, and how many are left."""

    queue_id: int
    epoch: int
    question: int
    run: DeliveredRun | None
    left: int


class RangeQueryReply(msgspec.Struct, frozen=True, array_like=True, tag="z"):
    """The answer to that, as the client will have it."""

    queue_id: int
    epoch: int
    question: int
    headers: bytes
    body: bytes


class RemoteRefusal(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """The question is answered with an error for the client."""

    queue_id: int
    epoch: int
    question: int
    code: int
    explanation: str
    reason: str = ""
    """Machine-readable (`ranges.reasons`); empty if the error has none."""


class DirectReply(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    """Direct replies to a channel of the other node."""

    name: str
    run: RemoteRun


class DirectReplyQuery(msgspec.Struct, frozen=True, array_like=True, tag="h"):
    """Is there a channel on the other node that waits for direct replies under this name?"""

    question: int
    name: str


class DirectReplyKnown(msgspec.Struct, frozen=True, array_like=True, tag="i"):
    """The answer to that."""

    question: int
    known: bool


class FetchMessages(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """Request for good copies of messages that are damaged on the disk of the node that asks."""

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
    """Answer to FetchMessages: those of which there is a good copy, as many as fit."""

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


class StreamHello(msgspec.Struct, frozen=True, array_like=True, tag="remote.hello"):
    """The first word: which life this is, and how far the stream has come."""

    incarnation: int
    your_life: int
    received: int
    """Parcels of `your_life` that have arrived."""
    answer: bool = False
    """To a Hello, and needs no answer itself."""


class StreamFrame(msgspec.Struct, frozen=True, array_like=True, tag="remote.parcel"):
    """Items, in order."""

    number: int
    """1, 2, 3 …; 0 if it carries nothing and only tells what has arrived."""
    received: int
    """Parcels that have arrived from the other side."""
    items: list[Item]


RemoteMessage = StreamHello | StreamFrame
"""What goes over a link between nodes."""
