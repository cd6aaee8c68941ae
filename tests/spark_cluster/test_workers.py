"""Workers of a cluster whose Python lacks the package: an error says what to set, an archive supplies it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pyarrow.parquet as pq
import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.spark_cluster.standalone import SparkCluster, bare_python, submit, submit_environment

SMALL = {"spark.executor.memory": "512m", "spark.cores.max": "1", "spark.ui.enabled": "false"}
SCRIPT = f"""
import sys
from mirrormq.spark import register
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import start_session

spark = start_session("workers", sys.argv[1], {SMALL})
for _ in range(2):
    try:
        register(spark)
        print("registered")
    except PipelineError as error:
        print(error)
"""
JOB = """
import sys
from mirrormq.spark import register
from mirrormq.spark.registry_body import registry_body
from pyspark.sql import SparkSession

_, uri, queue, target, checkpoint, schemas = sys.argv
spark = SparkSession.builder.appName("recipe").getOrCreate()
register(spark)
messages = spark.readStream.format("mirrormq").option("uri", uri).option("queue", queue).load()
writer = messages.writeStream.format("parquet").option("path", target)
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
rows = spark.read.parquet(target).select("body")
place = {"exchange": "", "routingKey": queue + ".copy"}
rows.write.format("mirrormq").mode("append").option("uri", uri).options(**place).save()
avro = rows.selectExpr("unhex(hex(2 * length(body))) as body")
numbers = registry_body(avro, schemas, "number", header=False)
print("decoded", numbers.where("value.n is not null").count())
"""
QUEUE = "spark.recipe"
MESSAGES = 500


@pytest.fixture(scope="module")
def without_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a `python3` that has the standard library only."""
    return bare_python(tmp_path_factory.mktemp("bare")).parent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, without_packages: Path) -> Iterator[SparkCluster]:
    """Cluster of one worker whose `python3` has no packages."""
    path = f"{without_packages}:{os.environ['PATH']}"
    with SparkCluster(tmp_path_factory.mktemp("spark"), workers=1, path=path) as spark:
        yield spark


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_without_the_package_get_an_error(cluster: SparkCluster, without_packages: Path) -> None:
    for python in (str(without_packages / "python3"), sys.executable):
        command = [sys.executable, "-c", SCRIPT, cluster.master]
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
            assert "mirrormq pipeline package" in said[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_submit_sends_the_packages_in_an_archive(
    cluster: SparkCluster, mirrormq: MirrorMQ, tmp_path: Path
) -> None:
    """The recipe of the manual: both programs are `python3`, and only the driver's has the packages."""
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    connection = pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0"))
    channel = connection.channel()
    for queue in (QUEUE, f"{QUEUE}.copy"):
        channel.queue_declare(queue, durable=True, arguments={"x-expires": 600_000})
    for number in range(MESSAGES):
        channel.basic_publish("", QUEUE, b"%d" % number)
    channel.queue_declare(QUEUE, passive=True)

    (tmp_path / "number.avsc").write_text(
        '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'
    )
    job = tmp_path / "job.py"
    job.write_text(JOB)
    places = [str(tmp_path / "rows"), str(tmp_path / "checkpoint"), str(tmp_path)]
    archive = tmp_path / "mirrormq-spark.tar.gz"
    command = submit(cluster.master, archive, SMALL, str(job), uri, QUEUE, *places)
    environment = submit_environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"decoded {MESSAGES}" in done.stdout, "the archive lacks fastavro"
    found = pq.read_table(tmp_path / "rows", columns=["body"], partitioning=None)["body"].to_pylist()
    assert sorted(map(int, found)) == list(range(MESSAGES))
    assert channel.queue_declare(f"{QUEUE}.copy", passive=True).method.message_count == MESSAGES
    assert channel.queue_delete(QUEUE, if_empty=True).method.message_count == 0
    connection.close()
