"""Spark integration of MirrorMQ. The extra `[spark]` installs it; the broker never imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.spark.spark_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["publish_once", "register", "start_session"]


def register(spark: SparkSession) -> None:
    """Register `format("mirrormq")` with a session, for reading queues and publishing to exchanges."""
    from mirrormq.spark import datasource

    datasource.register(spark)


def publish_once(frame: DataFrame, batch_id: int, name: str = "", **options: str) -> None:
    """Publish a batch inside `foreachBatch`, each row once also if Spark runs the batch again.

    A function that calls this several times for one batch gives each call a `name`, which stays the same from
    batch to batch. `options` are those of the sink. The option `writeId` defaults to the query's id and the
    name.
    """
    from mirrormq.spark.sink.publish_once import publish_once

    publish_once(frame, batch_id, name, options)
