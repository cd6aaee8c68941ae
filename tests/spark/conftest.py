"""One Spark for all tests of this folder, as small and as quick to start as it gets, and a node's address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mirrormq.spark.spark_session import SHORT_WORK, start_session
from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on one core, started when the first test asks for it."""
    settings = {"spark.driver.extraJavaOptions": SHORT_WORK, "spark.sql.shuffle.partitions": "4"}
    session = start_session("tests", "local[1]", settings)
    yield session
    session.stop()


@pytest.fixture
def uri(mirrormq: MirrorMQ) -> str:
    """Where the node of all tests is to be found."""
    return f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
