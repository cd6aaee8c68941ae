"""MirrorMQ for Spark. Installed by the extra `[spark]`; the broker never imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("mirrormq")` known to a session, for reading queues and publishing to exchanges."""
    from mirrormq.spark import datasource

    datasource.register(spark)
