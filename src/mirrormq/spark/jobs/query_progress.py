"""Streaming query on a terminal: a progress line, a stop at a batch boundary, an error as one sentence."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.spark.interrupts import noted
from mirrormq.spark.jobs.batch_boundary import BatchBoundary
from mirrormq.spark.jobs.reporter import JobReporter
from mirrormq.spark.pipeline_errors import PipelineError, reason

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.5
"""Interval at which the query is polled."""

STOP_PATIENCE_S = 60.0
"""Time for the running batch to complete after Ctrl-C before it is aborted, as it is by a second Ctrl-C. An
aborted batch is repeated next time."""


class QueryFollower:
    """Observed progress of a query."""

    def __init__(self, name: str, reporter: JobReporter | None = None, more: Callable[[], str] = str) -> None:
        self.rows = 0
        self._more = more
        self._reporter = reporter
        self._name = name
        self._batch = -1
        self._shown = sys.stderr.isatty()

    def see(self, progress: dict[str, Any] | None) -> None:
        """Count a batch once, draw the line, and report to the cluster."""
        if progress is None or progress["batchId"] <= self._batch:
            return
        self._batch = progress["batchId"]
        # Over Spark Connect only the sources have this number.
        self.rows += sum(source["numInputRows"] for source in progress["sources"])
        rate = sum(source.get("processedRowsPerSecond") or 0.0 for source in progress["sources"])
        numbers: dict[str, int | float | str] = {
            "batch": self._batch, "messages": self.rows, "per_second": round(rate, 1)
        }  # fmt: skip
        text = f"batch {self._batch}, {self.rows:,} messages, {rate:,.0f}/s"
        lag = lag_of(progress)
        numbers |= lag
        if "behind" in lag:
            text += f", {lag['behind']:,} behind"
        text += self._more()
        if self._reporter is not None:
            self._reporter.update(text, numbers)
        if self._shown:
            sys.stderr.write(f"\r{self._name}: {text}\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def lag_of(progress: dict[str, Any]) -> dict[str, int | float]:
    """Return ready messages and bytes, and the age of the oldest lease, from the sources' last offsets."""
    offsets = [source.get("latestOffset") for source in progress["sources"]]
    try:
        found = [json.loads(offset) if isinstance(offset, str) else offset for offset in offsets]
        return {
            "behind": sum(int(offset["behind"]) for offset in found),
            "bytes_behind": sum(int(offset["bytes_behind"]) for offset in found),
            "lease_age_s": max((float(offset["lease_age_s"]) for offset in found), default=0.0),
        }
    except (KeyError, TypeError, ValueError):
        return {}


def follow(
    query: StreamingQuery,
    name: str,
    gate: BatchBoundary,
    reporter: JobReporter | None = None,
    *,
    for_s: float = math.inf,
    more: Callable[[], str] = str,
    stop_patience_s: float = STOP_PATIENCE_S,
) -> QueryFollower:
    """Follow the query until it ends, `for_s` seconds have passed or Ctrl-C is pressed. The latter two close
    the boundary and stop the query after the running batch. `more` returns the end of the progress line."""
    from pyspark.errors import PySparkException

    follower = QueryFollower(name, reporter, more)
    try:
        began_s = time.monotonic()
        until_s, give_up_s = began_s + for_s, began_s + stop_patience_s
        with noted() as presses:
            while not query.awaitTermination(POLL_S):  # type: ignore[arg-type]
                for progress in query.recentProgress:
                    follower.see(json.loads(progress.json))
                now_s = time.monotonic()
                if not presses.count and now_s < until_s:
                    give_up_s = now_s + stop_patience_s
                    continue
                gate.close()
                if (
                    gate.holds
                    or not query.status["isTriggerActive"]
                    or now_s > give_up_s
                    or presses.count > 1
                ):
                    query.stop()
                    if (error := query.exception()) is not None:
                        raise error
                    break
    except PySparkException as error:
        raise PipelineError(f"the {name} stopped: {reason(error)}") from None
    finally:
        for progress in query.recentProgress:
            follower.see(json.loads(progress.json))
        follower.end()
    return follower
