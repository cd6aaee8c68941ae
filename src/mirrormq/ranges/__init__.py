"""Range protocol: range reads, leases and job reports over AMQP (`docs/ranges.md`). Pure.

The names below are the public interface for clients. `questions` builds requests and reads replies, `batch`
decodes the messages of a range read, `stretches` handles sequence numbers as (first, count) pairs.
"""

from mirrormq.ranges.batch import Batch, BatchError
from mirrormq.ranges.questions import REPLY_QUEUE, ROUTING_KEY, Extent, LeaseEntry, LeaseTake

__all__ = ["REPLY_QUEUE", "ROUTING_KEY", "Batch", "BatchError", "Extent", "LeaseEntry", "LeaseTake"]
