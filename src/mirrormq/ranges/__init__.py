"""Range protocol: range reads, leases and job reports over AMQP (`docs/ranges.md`). Pure.

The names below are the public interface for clients. `range_protocol` builds requests and reads replies,
`range_batch` decodes the messages of a range read, `mirrormq.sequences.spans` the spans of sequence numbers.
"""

from mirrormq.ranges.range_batch import BatchError, RangeBatch
from mirrormq.ranges.range_protocol import REPLY_QUEUE, ROUTING_KEY, LeaseEntry, LeaseTakeEntry, QueueExtent

__all__ = [
    "REPLY_QUEUE",
    "ROUTING_KEY",
    "BatchError",
    "LeaseEntry",
    "LeaseTakeEntry",
    "QueueExtent",
    "RangeBatch",
]
