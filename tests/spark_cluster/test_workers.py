"""Workers of a cluster whose Python lacks the package: one sentence says what to set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_cluster.standalone import SparkCluster

SCRIPT = """
import sys
from mirrormq.spark import register
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import start_session

spark = start_session("workers", sys.argv[1], {"spark.executor.memory": "512m", "spark.cores.max": "1"})
for _ in range(2):
    try:
        register(spark)
        print("registered")
    except PipelineError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_without_the_package_are_told(tmp_path: Path) -> None:
    released = tmp_path / "python"
    released.write_text(f'#!/bin/sh\nunset PYTHONSAFEPATH\nexec {sys.executable} -S "$@"\n')
    released.chmod(0o755)
    with SparkCluster(tmp_path, workers=1) as spark:
        for python in (str(released), sys.executable):
            command = [sys.executable, "-c", SCRIPT, spark.master]
            environment = {**os.environ, "PYSPARK_PYTHON": python}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=200, check=False
            )
            assert done.returncode == 0, done.stderr[-3000:]
            said = done.stdout.splitlines()
            if python == sys.executable:
                assert said == ["registered"] * 2
            else:
                assert all(line.startswith("Spark's workers cannot import mirrormq (") for line in said), said
                assert "set spark.pyspark.python to it" in said[0]
