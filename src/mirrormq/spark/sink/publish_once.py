"""`publish_once` of `foreachBatch`: the sink of a stream for a function that also does other work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirrormq.spark.option_reader import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_PROPERTY = "sql.streaming.queryId"
"""Property that Spark sets for the thread of a streaming query: equal after a restart from the checkpoint."""


def publish_once(frame: DataFrame, batch_id: int, options: Mapping[str, str]) -> None:
    """Publish the rows of a batch under the name of its query and its number."""
    given = {key.lower() for key in options}
    if "batchid" in given:
        raise OptionError("publish_once takes the batch's number as an argument, not as the option batchId")
    named = {} if "writeid" in given else {"writeId": f"{_query_of(frame)}/once"}
    writer = frame.write.format("mirrormq").mode("append").options(**options, **named)
    writer.option("batchId", str(batch_id)).save()


def _query_of(frame: DataFrame) -> str:
    context = getattr(frame.sparkSession, "_sc", None)
    query: str | None = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        raise OptionError(
            "publish_once finds no streaming query: call it in foreachBatch, or give the option writeId"
        )
    return query
