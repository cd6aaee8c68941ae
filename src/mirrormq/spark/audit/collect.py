"""Collector: runs the transforms over one history and collects the short tables of a report.

Collected tables have limits. Long ones (messages, ticks, inversions) stay in Spark, on disk between uses: the
memory of an audit does not grow with the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind
from mirrormq.spark.audit import activity, latency, loss, masters, message_outcomes, order
from mirrormq.spark.audit.findings import Findings, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLICES_MAX = 240
"""Points of a plot: about one for every four pixels of its width."""

SLICE_NS_MIN = 10 * activity.TICK_NS
"""Shortest slice: a rate over less than ten ticks is noise."""

TABLE_ROWS_MAX = 50
"""Rows of a table in the report; the totals count everything."""

LANE_ROWS_MAX = 2_000
"""Faults and epochs collected for the timeline, which has far fewer pixels."""

EXAMPLES_MAX = 12

PARTITIONS = "spark.sql.shuffle.partitions"
PARTITIONS_MIN = 2
ROWS_PER_PARTITION = 500_000
"""Rows per partition. Spark's default of 200 partitions costs a small history three times the work. This many
rows of a history are 125,000 messages: 20 MB to aggregate."""

PERCENTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
PERCENTILES_OVER_TIME = (0.5, 0.99)

Progress = Callable[[int, str], None]


class Collector:
    """Collector of one history's findings, step by step."""

    def __init__(self, events: DataFrame, history: str, progress: Progress) -> None:
        self.events = events
        self.progress = progress
        self.kept: list[DataFrame] = []
        self.history = history
        self.found: Findings

    def collect(self) -> Findings:
        """Collect all findings, then release the tables kept on disk."""
        settings = self.events.sparkSession.conf
        before = settings.get(PARTITIONS)
        try:
            settings.set(PARTITIONS, PARTITIONS_MIN)
            self.found = self._overview()
            settings.set(PARTITIONS, max(self.found.rows // ROWS_PER_PARTITION, PARTITIONS_MIN))
            verdicts = message_outcomes.judged(self._keep(message_outcomes.messages(self.events)))
            self._classes(verdicts)
            self._loss(verdicts)
            self._order()
            self._masters()
            self._activity()
            self._latencies(verdicts)
        finally:
            for frame in self.kept:
                frame.unpersist()
            if before is not None:
                settings.set(PARTITIONS, before)
        return self.found

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Persist a table on disk, never in memory."""
        self.kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return self.kept[-1]

    def _overview(self) -> Findings:
        self.progress(1, "counting rows")
        by_run = self.events.groupBy("run", "kind").agg(
            F.count(F.lit(1)).alias("rows"), F.min("time_ns").alias("first"), F.max("time_ns").alias("last")
        )
        kinds = rows_of(
            by_run.groupBy("kind").agg(
                F.sum("rows").alias("rows"), F.min("first").alias("first"), F.max("last").alias("last"),
                F.min("run").alias("lowest_run"), F.max("run").alias("highest_run"),
            )
        )  # fmt: skip
        start = min((row["first"] for row in kinds), default=0)
        end = max((row["last"] for row in kinds), default=0)
        several = len({row[name] for row in kinds for name in ("lowest_run", "highest_run")}) > 1
        return Findings(
            history=self.history,
            start_ns=start,
            end_ns=end,
            slice_ns=max(-(-(end - start + 1) // SLICES_MAX), SLICE_NS_MIN),
            runs=by_run.select("run").distinct().count() if several else 1,
            kinds={row["kind"]: row["rows"] for row in sorted(kinds, key=lambda row: -row["rows"])},
        )

    def _has(self, *kinds: EventKind) -> bool:
        """Whether the history has rows of these kinds; transforms without input are skipped."""
        return any(kind.value in self.found.kinds for kind in kinds)

    def _classes(self, verdicts: DataFrame) -> None:
        self.progress(2, "following each message")
        by_queue = self._keep(message_outcomes.classes(verdicts, "run", "queue"))
        self.found.totals = rows_of(message_outcomes.classes_summed(by_queue))[0]
        worst = [F.desc(name) for name in ("lost", "unexpected", "unflagged", "attempted")]
        self.found.queues = rows_of(by_queue.orderBy(*worst, "run", "queue").limit(TABLE_ROWS_MAX))
        for name in ("lost", "unexpected", "unflagged"):
            if self.found.totals[name]:
                self.found.examples[name] = rows_of(message_outcomes.examples(verdicts, name, EXAMPLES_MAX))
        empty = (F.col("kind") == EventKind.DRAINED.value) & (F.coalesce(F.col("count"), F.lit(0)) == 0)
        drained = self.events.where(empty).select("run", "queue").distinct()
        not_drained = by_queue.where("attempted > 0").join(
            F.broadcast(drained), ["run", "queue"], "left_anti"
        )
        self.found.not_drained = rows_of(
            not_drained.select("run", "queue").orderBy("run", "queue").limit(TABLE_ROWS_MAX)
        )

    def _loss(self, verdicts: DataFrame) -> None:
        self.progress(3, "locating lost messages")
        windows = loss.fault_windows(self.events)
        if self._has(EventKind.FAULT_BEGAN):
            self.found.faults = rows_of(windows.orderBy("run", "begin_ns", "fault").limit(LANE_ROWS_MAX))
        if not self.found.totals["lost"]:
            return
        lost = self._keep(loss.lost_when(verdicts))
        most = F.desc("lost")
        by_fault = loss.lost_by_fault(lost, windows).orderBy(most, "run", "fault", "relation")
        self.found.lost_by_fault = rows_of(by_fault.limit(LANE_ROWS_MAX))
        by_epoch = loss.lost_by_epoch(lost, masters.epochs(self.events)).orderBy(
            most, "run", "queue", "epoch"
        )
        self.found.lost_by_epoch = rows_of(by_epoch.limit(TABLE_ROWS_MAX))
        number = F.expr(f"cast((at_ms * 1000000 - {self.found.start_ns}) div {self.found.slice_ns} as int)")
        self.found.lost_over_time = rows_of(
            lost.groupBy(number.alias("slice")).agg(F.sum("lost").alias("lost")).orderBy("slice")
        )

    def _order(self) -> None:
        self.progress(4, "checking the order")
        interrupted = self._has(EventKind.DISCONNECTED, EventKind.CANCELLED)
        inverted = self._keep(order.inversions(self.events, incarnations=interrupted))
        by_time = inverted.orderBy("run", "time_ns", "publisher", "number")
        self.found.inversions, self.found.totals["inversions"] = _limited(by_time, EXAMPLES_MAX)

    def _masters(self) -> None:
        self.progress(5, "comparing masters and replicas")
        totals, at = self.found.totals, ("run", "queue", "epoch")
        totals.update(split=0, claimed=0, divergences=0)
        if self._has(EventKind.MASTER, EventKind.MASTER_CONFIRMED):
            known = masters.epochs(self.events)
            self.found.epochs = rows_of(known.orderBy("run", "since_ns", *at[1:]).limit(LANE_ROWS_MAX))
            split = masters.split_epochs(known).orderBy(F.desc("both_confirmed"), *at)
            self.found.split_epochs, count = _limited(split, TABLE_ROWS_MAX)
            totals["split"] = (
                sum(row["both_confirmed"] for row in self.found.split_epochs)
                if count < TABLE_ROWS_MAX
                else split.where("both_confirmed").count()
            )
            totals["claimed"] = count - totals["split"]
        if self._has(EventKind.REPLICA):
            differing = masters.divergences(self.events).orderBy(*at, "sequence")
            self.found.divergences, totals["divergences"] = _limited(differing, TABLE_ROWS_MAX)
            last = masters.replicas(self.events).orderBy("run", "queue", "node")
            self.found.replicas = rows_of(last.limit(TABLE_ROWS_MAX))

    def _activity(self) -> None:
        self.progress(6, "measuring rates and silences")
        ticked = self._keep(activity.ticks(self.events))
        rates = activity.rates(ticked, self.found.start_ns, self.found.slice_ns)
        by_node = rates.groupBy("node", "kind", "slice").agg(F.sum("events").alias("events"))
        self.found.rates = rows_of(
            by_node.orderBy("node", "kind", "slice").limit(SLICES_MAX * TABLE_ROWS_MAX)
        )
        longest = activity.silences(ticked).orderBy("kind", F.desc("silence_ns"), "run", "node")
        self.found.silences = rows_of(longest.limit(TABLE_ROWS_MAX))
        cluster_wide = activity.cluster_silences(ticked).orderBy("kind", "run")
        self.found.cluster_silences = rows_of(cluster_wide.limit(TABLE_ROWS_MAX))
        stopped = (EventKind.DISCONNECTED, EventKind.CANCELLED)
        if self._has(*stopped):
            self.found.interruptions = rows_of(
                self.events.where(F.col("kind").isin([kind.value for kind in stopped]))
                .groupBy("node")
                .agg(*(F.count_if(F.col("kind") == kind.value).alias(kind.value) for kind in stopped))
                .orderBy("node")
                .limit(TABLE_ROWS_MAX)
            )

    def _latencies(self, verdicts: DataFrame) -> None:
        self.progress(7, "measuring latencies")
        counted = latency.latencies(verdicts, self.found.start_ns, self.found.slice_ns)
        by_slice = counted.groupBy("measure", "slice", "bucket").agg(
            F.sum("messages").alias("messages"), F.max("latency_ns_max").alias("latency_ns_max")
        )
        _summarise_latencies(self.found, rows_of(by_slice))


def _summarise_latencies(found: Findings, rows: list[Row]) -> None:
    for measure in (latency.CONFIRM, latency.DELIVERY):
        mine = [row for row in rows if row["measure"] == measure]
        if not mine:
            continue
        whole: dict[int, int] = defaultdict(int)
        slices: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for row in mine:
            whole[row["bucket"]] += row["messages"]
            slices[row["slice"]][row["bucket"]] += row["messages"]
        found.latencies.append(
            {
                "measure": measure,
                "messages": sum(whole.values()),
                **{_name(part): latency.percentile_ns(whole.items(), part) for part in PERCENTILES},
                "max": max(row["latency_ns_max"] for row in mine),
            }
        )
        found.latencies_over_time += [
            {
                "measure": measure,
                "slice": number,
                **{_name(p): latency.percentile_ns(counts.items(), p) for p in PERCENTILES_OVER_TIME},
            }
            for number, counts in sorted(slices.items())
        ]
        found.latency_buckets += [
            {"measure": measure, "bucket": bucket, "messages": n} for bucket, n in sorted(whole.items())
        ]


def _name(part: float) -> str:
    """Return the name of a percentile: 0.999 → p99.9"""
    return f"p{part * 100:g}"


def _limited(frame: DataFrame, limit: int) -> tuple[list[Row], int]:
    """Return the first rows of a table, and its total number of rows."""
    rows = rows_of(frame.limit(limit))
    return rows, len(rows) if len(rows) < limit else frame.count()


def rows_of(frame: DataFrame) -> list[Row]:
    """Collect the rows of a short table."""
    return [row.asDict(recursive=True) for row in frame.collect()]
