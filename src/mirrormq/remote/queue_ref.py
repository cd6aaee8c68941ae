"""Reference to a queue in one epoch."""

from __future__ import annotations

from typing import NamedTuple


class QueueRef(NamedTuple):
    """Queue with its master on another node, during one epoch."""

    queue_id: int
    epoch: int
    vhost: str
    name: str
