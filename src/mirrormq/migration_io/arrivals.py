"""Publish ids that the new cluster has stored, remembered after the cluster has forgotten them.

A queue forgets a producer that has been idle for seven days (`limits.PRODUCER_IDLE_MS`). A migration may last
longer, and each attempt of a link is a producer of its own. So `run` reads the numbers now and then, and
`verify` counts the highest that was ever read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mirrormq.backup.backup_files import BackupError
from mirrormq.backup.cluster_access import ClusterAccess
from mirrormq.migration.comparison import Arrived
from mirrormq.migration.migration_records import Plan
from mirrormq.migration.move_ledger import QueueKey
from mirrormq.migration.moved_messages import PRODUCER_PREFIX, TABLE_PREFIX
from mirrormq.migration_io.broker_api import MigrationError
from mirrormq.migration_io.migration_directory import MigrationDirectory
from mirrormq.ranges import error_reasons
from mirrormq.spark.client.client_errors import RequestRefused

PATIENCE_S = 30.0
FILE = "arrived.json"


class QueueArrivals(msgspec.Struct):
    """Highest number of each producer of one queue."""

    vhost: str
    queue: str
    numbers: dict[str, int]


class Arrivals:
    """Arrivals of one migration."""

    def __init__(self, directory: MigrationDirectory, plan: Plan) -> None:
        self._directory, self._plan = directory, plan
        # Another migration may have come before: its producers do not count.
        self._prefix = f"{TABLE_PREFIX}{plan.id}-"
        self.marker = f"{PRODUCER_PREFIX}{plan.id}-".encode()
        """Octets that the properties of a moved message contain."""
        known: dict[str, Any] = directory.document(FILE) or {}
        rows = msgspec.convert(known.get("queues", []), list[QueueArrivals])
        self._numbers: dict[QueueKey, dict[str, int]] = {(row.vhost, row.queue): row.numbers for row in rows}

    def observe(self, queue: QueueKey, producers: Mapping[str, int]) -> Arrived:
        """Remember the table of a queue; return what has arrived."""
        numbers = self._numbers.setdefault(queue, {})
        for name, number in producers.items():
            if name.startswith(self._prefix):
                numbers[name] = max(number, numbers.get(name, 0))
        return Arrived(sum(numbers.values()), len(numbers))

    def save(self) -> None:
        """Write all numbers."""
        rows = [QueueArrivals(*queue, numbers) for queue, numbers in sorted(self._numbers.items()) if numbers]
        self._directory.write(FILE, {"queues": rows})

    def record(self, queues: Iterable[QueueKey]) -> None:
        """Read the tables of queues from the new cluster, and write the numbers."""
        try:
            with ClusterAccess(self._plan.new_amqp, PATIENCE_S) as cluster:
                for vhost, name in queues:
                    try:
                        _, cut = cluster.cut(vhost, name)
                    except RequestRefused as error:
                        if error.reason != error_reasons.NO_QUEUE:
                            raise MigrationError(f"queue '{name}' cannot be read: {error}") from None
                    else:
                        self.observe((vhost, name), cut.producers)
        except BackupError as error:
            raise MigrationError(f"the new cluster cannot be read: {error}") from None
        self.save()
