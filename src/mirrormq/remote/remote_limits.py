"""Limits of the traffic between a client's node and a queue's master."""

from __future__ import annotations

from dataclasses import dataclass

from mirrormq.peers.peer_limits import StreamLimits


@dataclass(frozen=True, slots=True)
class RemoteLimits(StreamLimits):
    """Limits that the remote endpoint of a node receives at its construction."""

    publish_bytes_max: int = 16 * 1024 * 1024
    publish_messages_max: int = 32 * 1024
    """Unsettled publishes to one queue that the publisher's node keeps.

    A ring confirms within milliseconds, so this is far more than is ever in flight. The limit is reached
    while a queue has no master, and publishers then wait. 32 Ki small messages are 13 MB.
    """

    publish_bytes_total_max: int = 256 * 1024 * 1024
    """Unsettled publishes to all queues together: what a node may hold for masters that do not reply."""

    credit_max: int = 2048
    """Messages in flight to a consumer without a prefetch limit. At the pace of one consumer (100,000 a
    second) that is 20 ms, more than a turn and a round trip."""

    delivered_bytes_max: int = 4 * 1024 * 1024
    """Contents in flight to one consumer that its node has not passed on to the client. Twice what a queue
    delivers in one turn, so that the next batch leaves while the last one travels."""


DEFAULT_LIMITS = RemoteLimits()
