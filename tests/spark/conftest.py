"""One Spark for all tests of this folder, as small and as quick to start as it gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mirrormq.spark.session import SHORT_WORK, start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on one core, started when the first test asks for it."""
    settings = {"spark.driver.extraJavaOptions": SHORT_WORK, "spark.sql.shuffle.partitions": "4"}
    session = start_session("tests", "local[1]", settings)
    yield session
    session.stop()
