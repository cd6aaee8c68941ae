"""Publishing no faster than asked: so many messages a second, or as far apart as they once were."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from mirrormq.spark.client.spark_publisher import SparkPublisher

SLEEP_MIN_S = 0.01
"""Shorter waits are saved up: a sleep costs more than they are worth."""


@dataclass(frozen=True)
class PublishPace:
    """How fast a partition is published."""

    rate: float | None = None
    """Messages per second."""
    speed: float | None = None
    """How much faster time passes than it did; messages must have time stamps."""
    origin_s: float = 0.0
    """The time stamp that is published at `start_s`, both in seconds since the Unix epoch."""
    start_s: float = 0.0


class PublishPacer:
    """Waits before a message until it is its time."""

    def __init__(self, pace: PublishPace, publisher: SparkPublisher) -> None:
        self._pace = pace
        self._publisher = publisher
        self._began_s = time.time()
        self._count = 0

    def wait(self, stamp: datetime | None) -> None:
        """Before the next message, which has this time stamp."""
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
