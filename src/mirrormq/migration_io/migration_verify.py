"""Verification: reads both clusters and compares them with the ledger, queue by queue."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from mirrormq.backup.backup_files import BackupError
from mirrormq.backup.cluster_access import ClusterAccess
from mirrormq.migration.comparison import (
    Arrived,
    OldQueue,
    Row,
    Stored,
    StoredMessages,
    Totals,
    compare,
    totals,
)
from mirrormq.migration.definition_sets import (
    Difference,
    lacking,
    queue_names,
    select,
    temporary_queues,
)
from mirrormq.migration.migration_records import Plan
from mirrormq.migration.move_ledger import Moved, MoveLedger, QueueKey
from mirrormq.migration.moved_messages import plain, plain_hash
from mirrormq.migration.phases import Direction, Phase
from mirrormq.migration_io.arrivals import PATIENCE_S, Arrivals
from mirrormq.migration_io.broker_api import BrokerApi, MigrationError
from mirrormq.migration_io.migration_directory import MigrationDirectory, now_text
from mirrormq.migration_io.queue_counts import count
from mirrormq.ranges import error_reasons
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.spark.client.client_errors import RequestRefused

STATISTICS_AGE_S = 12.0
"""Age of RabbitMQ's statistics at most: twice their interval, and some time for a busy node."""
POLL_S = 0.5

SETTLED = (Phase.DRAINED, Phase.FINISHED)
"""Phases in which all messages have moved. In earlier ones those on the old cluster are no difference."""


class Report(msgspec.Struct, frozen=True):
    """Result of a verification."""

    time: str
    phase: Phase
    rows: list[Row]
    definitions: list[Difference]
    totals: Totals

    @property
    def differences(self) -> list[str]:
        """All unexplained differences, as sentences."""
        found = [f"{each.kind} {each.name} {each.reason}" for each in self.definitions]
        return found + [
            f"queue '{row.queue}' in vhost '{row.vhost}': {row.difference}"
            for row in self.rows
            if row.difference
        ]


def verify(directory: MigrationDirectory, plan: Plan, progress: Callable[[str], None]) -> Report:
    """Compare both clusters now."""
    old, new = BrokerApi("old", plan.old_api), BrokerApi("new", plan.new_api)
    phase = directory.state().phase
    log = directory.path / "moved.log"
    ledger = MoveLedger.read(log.read_bytes() if log.exists() else b"")
    wanted = select(old.get("definitions"), plan.vhosts, plan.kept_users).document
    queues = sorted({*queue_names(wanted), *(queue for _, queue in ledger.moved)})
    counts = count("old", plan.old_amqp, queues)
    unacked = _unacked(old, settled=phase in SETTLED)
    temporary = temporary_queues(wanted)
    arrivals = Arrivals(directory, plan)
    rows = []
    with ClusterAccess(plan.new_amqp, PATIENCE_S) as cluster:
        for number, queue in enumerate(queues, 1):
            progress(f"queue {number} of {len(queues)}: '{queue[1]}'")
            moved = ledger.of(Direction.FORWARD, queue)
            arrived, stored = _read(cluster, queue, moved, arrivals)
            left = counts.get(queue)
            source = None if left is None else OldQueue(left.ready, unacked.get(queue, 0))
            rows.append(
                compare(
                    queue, moved, arrived, source, stored,
                    under_way=phase not in SETTLED, temporary=queue in temporary,
                )
            )  # fmt: skip
    arrivals.save()
    known = {(finding.kind, finding.name) for finding in plan.findings}
    differences = lacking(wanted, new.get("definitions"), known)
    report = Report(now_text(), phase, rows, differences, totals(rows))
    directory.write("report.json", report)
    (directory.path / "report.md").write_text(as_markdown(report))
    return report


def _unacked(old: BrokerApi, *, settled: bool) -> dict[QueueKey, int]:
    """Return the unacknowledged messages of the old cluster; wait for statistics to become recent."""
    deadline_s = time.monotonic() + STATISTICS_AGE_S
    while True:
        found = {
            (row["vhost"], row["name"]): int(row.get("messages_unacknowledged") or 0)
            for row in old.get("queues?columns=vhost,name,messages_unacknowledged")
        }
        if not settled or not any(found.values()) or time.monotonic() > deadline_s:
            return found
        time.sleep(POLL_S)


def _read(
    cluster: ClusterAccess, queue: QueueKey, moved: Moved, arrivals: Arrivals
) -> tuple[Arrived | None, Stored | None]:
    """Return how many messages arrived, and those that the queue holds now."""
    vhost, name = queue
    try:
        extent, cut = cluster.cut(vhost, name)
        arrived = arrivals.observe(queue, cut.producers)
        if not 0 < moved.count <= extent.next - extent.first:
            return arrived, StoredMessages().result
        stored = StoredMessages()
        for part in cluster.read(vhost, name, extent):
            for row in RangeBatch(part.batch):
                exchange, routing_key = (text.decode("utf-8", "surrogateescape") for text in row.envelope[:2])
                if arrivals.marker in row.envelope.properties:
                    stored.add(plain_hash(plain(exchange, routing_key, row.envelope.properties), row.body))
        return arrived, stored.result
    except RequestRefused as error:
        if error.reason == error_reasons.NO_QUEUE:
            return None, None
        raise MigrationError(f"queue '{name}' of the new cluster cannot be read: {error}") from None
    except BackupError as error:
        raise MigrationError(f"the new cluster cannot be read: {error}") from None


def as_markdown(report: Report) -> str:
    """Return the report for people."""
    sums = report.totals
    lines = [
        "# Migration report", "",
        f"{report.time}, phase {report.phase}: {sums.moved} messages moved, {sums.arrived} arrived, "
        f"{sums.repeats} moved twice and marked, {sums.left} left on the old cluster, "
        f"{len(report.differences)} unexplained differences.",
        "",
        *(f"- {sentence}" for sentence in report.differences),
        *([""] if report.differences else []),
        "| vhost | queue | moved | arrived | repeats | left | digest |", "|---|---|---|---|---|---|---|",
        *(
            f"| {row.vhost} | {row.queue} | {row.moved} | {row.arrived} | {row.repeats} | {row.left} "
            f"| {row.digest} |"
            for row in report.rows
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
