"""`publish_once` of `foreachBatch`: the sink of a stream for a function that also does other work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirrormq.spark.option_reader import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_PROPERTY = "sql.streaming.queryId"
"""Property that Spark sets for the thread of a streaming query: equal after a restart from the checkpoint."""


RUN_PROPERTY = "spark.jobGroup.id"
"""Property that Spark sets to the id of the query's run: another one after each restart."""

WRITES_MAX = 1024
"""Writes whose last batch is remembered: more than the calls of all queries in one process."""

_published: dict[str, tuple[str, int]] = {}
"""Write id → run and batch of its last call. The oldest write first."""


def publish_once(frame: DataFrame, batch_id: int, name: str, options: Mapping[str, str]) -> None:
    """Publish the rows of a batch under the name of its query, the call's name and its number."""
    given = {key.lower() for key in options}
    if "batchid" in given:
        raise OptionError("publish_once takes the batch's number as an argument, not as the option batchId")
    if name and "writeid" in given:
        raise OptionError("publish_once takes a name or the option writeId, not both")
    write = next((value for key, value in options.items() if key.lower() == "writeid"), None)
    if write is None:
        write = f"{_query_of(frame)}/once" + (f"/{name}" if name else "")
    _check_first_call(frame, write, batch_id)
    writer = frame.write.format("mirrormq").mode("append").options(**options)
    writer.option("writeId", write).option("batchId", str(batch_id)).save()


def _check_first_call(frame: DataFrame, write: str, batch_id: int) -> None:
    """Refuse a second call in one batch under the same name: its rows would be taken for a repetition of the
    first call's. A query runs a batch again in another run only."""
    context = getattr(frame.sparkSession, "_sc", None)
    run = None if context is None else context.getLocalProperty(RUN_PROPERTY)
    if run is None or not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", run):
        return  # outside a query, or in a job group of the user
    if _published.pop(write, None) == (run, batch_id):
        raise OptionError(
            f"publish_once was called twice for batch {batch_id} under one name: give each call another name"
        )
    _published[write] = (run, batch_id)
    while len(_published) > WRITES_MAX:
        del _published[next(iter(_published))]


def _query_of(frame: DataFrame) -> str:
    context = getattr(frame.sparkSession, "_sc", None)
    query: str | None = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        raise OptionError(
            "publish_once finds no streaming query: call it in foreachBatch, or give the option writeId"
        )
    return query
