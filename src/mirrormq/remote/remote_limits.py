"""The sizes of what is kept and what may be under way between a client's node and a queue's master."""

from __future__ import annotations

PUBLISH_BYTES_MAX = 16 * 1024 * 1024
PUBLISH_MESSAGES_MAX = 32 * 1024
"""Publishes to one queue of another node that are kept here because its master has not said that they are
safe. A ring answers within milliseconds, so this is far more than is ever under way; it fills up while
a queue has no master, and then publishers wait. 32 Ki small messages are 13 MB."""

PUBLISH_BYTES_TOTAL_MAX = 256 * 1024 * 1024
"""The same over all queues: what a node may hold for masters that do not answer."""

CREDIT_MAX = 2048
"""Messages on their way to a consumer that has no limit of its own. At the pace of one consumer (100,000 a
second) that is 20 ms of them, more than a turn and a round trip."""

DELIVERED_BYTES_MAX = 4 * 1024 * 1024
"""Contents on their way to one consumer that its node has not passed on to the client. Twice what a queue
hands out in one turn, so that the next batch leaves while the last one travels."""

STREAM_BYTES_MAX = 16 * 1024 * 1024
"""What one node may have under way to another before it waits for word of its arrival: as much as a link
takes before it calls itself congested."""

PARCEL_BYTES = 512 * 1024
"""A parcel this large leaves at once, so that the other side can begin with it."""

PARCELS_UNTOLD_MAX = 64
"""Parcels received before that is told on its own, if there is nothing else to send: a turn's end comes first
as a rule."""

SMALL_BYTES = 64
"""About what an item without contents takes."""
