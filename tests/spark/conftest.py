"""Shared Spark session of the tests, small and quick to start, and the URI of a node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mirrormq.spark import start_session
from mirrormq.spark.spark_session import SHORT_WORK
from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Session on one core, started for the first test that needs it."""
    settings = {"spark.driver.extraJavaOptions": SHORT_WORK, "spark.sql.shuffle.partitions": "4"}
    session = start_session("tests", "local[1]", settings)
    yield session
    session.stop()


@pytest.fixture
def uri(mirrormq: MirrorMQ) -> str:
    """URI of the node that all tests share."""
    return f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
