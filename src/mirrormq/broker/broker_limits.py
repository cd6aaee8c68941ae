"""Limits of a broker: one value, composed of the parts that its objects receive at their construction."""

from __future__ import annotations

from dataclasses import dataclass

from mirrormq.queues.queue_limits import DEFAULT_LIMITS as DEFAULT_QUEUE_LIMITS
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.remote.remote_limits import DEFAULT_LIMITS as DEFAULT_REMOTE_LIMITS
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.replication.replication_limits import DEFAULT_LIMITS as DEFAULT_REPLICATION_LIMITS
from mirrormq.replication.replication_limits import ReplicationLimits


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Limits of all objects of one broker."""

    replication: ReplicationLimits = DEFAULT_REPLICATION_LIMITS
    remote: RemoteLimits = DEFAULT_REMOTE_LIMITS
    queues: QueueLimits = DEFAULT_QUEUE_LIMITS
    """Limits in the memory budget that the broker receives."""


DEFAULT_LIMITS = BrokerLimits()
