"""Executors, workers, the queue's master (which also freezes) and the driver die: each message is in Parquet
once. The job runs as the manual says, with `spark-submit --archives`, on workers without the packages."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pika
import pyarrow.parquet as pq
import pytest

from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import queue
from tests.spark_cluster.standalone import SparkCluster, bare_python, submit, submit_environment
from tests.waiting import until

MESSAGES = 16_000
CONTINUES_S = 240
"""Limit for a new executor to unpack the archive and to continue. A quiet machine needs a tenth of it."""
PER_BATCH = 500
"""While things die; there must be more than is archived by then."""
QUEUE = "spark.faults"
JOB = """
import sys
from mirrormq.spark.jobs.archive import ArchiveOptions, archive
from pyspark.sql import SparkSession

_, uri, queue, to, once, *pairs = sys.argv
spark = SparkSession.builder.appName("faults").getOrCreate()
source = dict(pair.split("=") for pair in pairs)
archive(spark, ArchiveOptions(uri, queue, to, once=once == "once", trigger="100ms", source=source))
"""
SETTINGS = {
    "spark.executor.memory": "512m", "spark.driver.memory": "768m", "spark.cores.max": "2",
    "spark.executor.cores": "1", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.sql.shuffle.partitions": "2",
}  # fmt: skip


class Driver:
    """`spark-submit` of the archive job as a process."""

    def __init__(self, spark: SparkCluster, brokers: Cluster, directory: Path, *, once: bool) -> None:
        uris = ",".join(brokers.uri(index) for index in range(3))
        job = directory / "job.py"
        job.write_text(JOB)
        words = [str(job), uris, QUEUE, str(directory / "archive"), "once" if once else "", "minPartitions=2"]
        if not once:
            words += [f"maxMessagesPerTrigger={PER_BATCH}"]
        command = submit(spark.master, directory / "mirrormq-spark.tar.gz", SETTINGS, *words)
        self.log = directory / "driver.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=submit_environment(), stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL to the driver and its Java, as if its machine were gone."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self) -> None:
        try:
            code = self.process.wait(CONTINUES_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert code == 0, self.log.read_text()[-3000:]


def batches(directory: Path) -> set[str]:
    """The batches that are in the archive."""
    return {path.name for path in (directory / "archive").glob("date=*/queue=*/batch=*")}


def master_with_two_mirrors(brokers: Cluster) -> int | None:
    """The queue's master, which is no longer the first node, once both mirrors are synchronised."""
    row = queue(brokers, QUEUE, 2)
    if len(row.get("synchronised_slave_nodes", ())) < 2 or row["node"] == brokers.name(0):
        return None
    return [brokers.name(index) for index in range(3)].index(row["node"])


def publish(brokers: Cluster) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(brokers.uri(0)))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    for number in range(MESSAGES):
        channel.basic_publish("", QUEUE, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    until(lambda: channel.queue_declare(QUEUE, passive=True).method.message_count == MESSAGES)
    connection.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_message_is_archived_once_whatever_dies(tmp_path: Path) -> None:
    path = f"{bare_python(tmp_path).parent}:{os.environ['PATH']}"
    with Cluster(nodes=3, mirror_all=True) as brokers, SparkCluster(tmp_path, path=path) as spark:
        publish(brokers)
        driver = Driver(spark, brokers, tmp_path, once=False)

        def two_more(what: str, action: Callable[[], None]) -> None:
            """Do it while a batch is under way; the archive then goes on growing."""
            before = len(batches(tmp_path))
            action()
            deadline = time.monotonic() + CONTINUES_S
            while len(batches(tmp_path)) < before + 2:
                assert driver.process.poll() is None, (what, driver.log.read_text()[-3000:])
                assert time.monotonic() < deadline, (what, driver.log.read_text()[-3000:])
                time.sleep(0.1)

        try:
            two_more("start", lambda: None)
            two_more("executor", spark.kill_executor)
            two_more("frozen master of the queue", lambda: brokers.freeze(0))
            brokers.thaw(0)
            master = until(lambda: master_with_two_mirrors(brokers), "no catch-up", patience_s=60)
            two_more("master of the queue", lambda: brokers.kill(master))
            two_more("worker", spark.kill_worker)
        finally:
            driver.kill()
        assert len(batches(tmp_path)) < MESSAGES / PER_BATCH, "the driver died with work left to do"
        brokers.start(master)
        Driver(spark, brokers, tmp_path, once=True).wait()
        found = [
            int(body)
            for file in (tmp_path / "archive").glob("date=*/queue=*/batch=*/*.parquet")
            for body in pq.read_table(file, columns=["body"], partitioning=None)["body"].to_pylist()
        ]
        assert len(found) == MESSAGES
        assert sorted(found) == list(range(MESSAGES))
        connection = pika.BlockingConnection(pika.URLParameters(brokers.uri(0)))
        assert connection.channel().queue_delete(QUEUE, if_empty=True).method.message_count == 0
        connection.close()
