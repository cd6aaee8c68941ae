"""Publish rate: a fixed number of messages per second, or the original intervals between messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from mirrormq.spark.client.spark_publisher import SparkPublisher

SLEEP_MIN_S = 0.01
"""Shortest sleep; shorter waits accumulate, because a sleep costs more."""


@dataclass(frozen=True)
class PublishPace:
    """Publish rate of a partition."""

    rate: float | None = None
    """Messages per second."""
    speed: float | None = None
    """Factor by which time passes faster than it did; messages need time stamps."""
    origin_s: float = 0.0
    """Time stamp that is published at `start_s`, both in seconds since the Unix epoch."""
    start_s: float = 0.0


class PublishPacer:
    """Pacer that waits before each message until it is due."""

    def __init__(self, pace: PublishPace, publisher: SparkPublisher) -> None:
        self._pace = pace
        self._publisher = publisher
        self._began_s = time.time()
        self._count = 0

    def wait(self, stamp: datetime | None) -> None:
        """Wait until the next message, with this time stamp, is due."""
        pace = self._pace
        due_s = 0.0
        if pace.rate is not None:
            due_s = self._began_s + self._count / pace.rate
        if pace.speed is not None and stamp is not None:
            due_s = max(due_s, pace.start_s + (stamp.timestamp() - pace.origin_s) / pace.speed)
        self._count += 1
        wait_s = due_s - time.time()
        if wait_s >= SLEEP_MIN_S:
            self._publisher.push()
            time.sleep(wait_s)
