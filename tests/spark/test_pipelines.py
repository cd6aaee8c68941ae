"""Declarative Pipelines: the example project reads a queue and writes tables, run by `spark-pipelines`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pika
import pyarrow.parquet as pq
import pyspark
import pytest

from mirrormq.spark.java import find_java, quiet_java_home

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipeline"
QUEUE = "pipeline.orders"
ORDERS = [("Ulm", 20), ("Bonn", 5), ("Ulm", 22)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_fills_its_tables_from_a_queue(uri: str, tmp_path: Path) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0"))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    for city, amount in ORDERS:
        channel.basic_publish("", QUEUE, json.dumps({"city": city, "amount": amount}).encode())
    channel.basic_publish("", QUEUE, b"no JSON")
    channel.queue_declare(QUEUE, passive=True)

    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    specification = project / "spark-pipeline.yml"
    stored = "file:///var/tmp/mirrormq-pipeline"
    assert stored in specification.read_text()
    specification.write_text(specification.read_text().replace(stored, (tmp_path / "storage").as_uri()))
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "MIRRORMQ_URI": uri,
        "JAVA_HOME": str(quiet_java_home(find_java())), "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    command = [str(home / "bin" / "spark-pipelines"), "run", "--spec", str(specification)]
    command += [
        "--conf",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
        "--conf",
        "spark.ui.enabled=false",
    ]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0 and "Run is COMPLETED" in done.stdout + done.stderr, done.stderr[-3000:]

    tables = tmp_path / "spark-warehouse"
    orders = pq.read_table(next((tables / "orders").glob("*.parquet")), partitioning=None)
    assert orders.column_names == ["queue", "sequence", "city", "amount"]
    assert sorted(zip(*orders.select(["city", "amount"]).to_pydict().values(), strict=True)) == sorted(ORDERS)
    [revenue] = (tables / "revenue").glob("*.parquet")
    assert sorted(pq.read_table(revenue).to_pylist(), key=lambda row: row["city"]) == [
        {"city": "Bonn", "orders": 1, "revenue": 5},
        {"city": "Ulm", "orders": 2, "revenue": 42},
    ]
    assert channel.queue_delete(QUEUE).method.message_count == 0
    connection.close()
