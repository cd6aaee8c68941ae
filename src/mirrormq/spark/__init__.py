"""Spark integration of MirrorMQ. The extra `[spark]` installs it; the broker never imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.spark.spark_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "start_session"]


def register(spark: SparkSession) -> None:
    """Register `format("mirrormq")` with a session, for reading queues and publishing to exchanges."""
    from mirrormq.spark import datasource

    datasource.register(spark)
