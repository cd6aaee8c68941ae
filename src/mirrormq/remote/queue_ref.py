"""Which queue, and which tenure of it."""

from __future__ import annotations

from typing import NamedTuple


class QueueRef(NamedTuple):
    """A queue of another node, while one master holds it."""

    queue_id: int
    epoch: int
    vhost: str
    name: str
