"""A stopped query ends silently whatever its batch is doing; an error of a batch is reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mirrormq.spark.jobs.batch_boundary import BatchBoundary, interrupted
from mirrormq.spark.jobs.query_progress import STOP_PATIENCE_S, follow
from mirrormq.spark.pipeline_errors import PipelineError
from tests.waiting import until

PATIENCE_S = 60.0
LONG_MS = 60_000


class Batches:
    """Query whose batches run the test's code after they have reported their start."""

    def __init__(self, spark: SparkSession, work: Callable[[DataFrame], object]) -> None:
        self.begun = threading.Event()
        self.stopping = threading.Event()
        self.gate = BatchBoundary()
        self.count = 0
        self._work = work
        rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1).load()
        writer = rows.writeStream.foreachBatch(self.gate.before(self._do))
        self.query: StreamingQuery = writer.trigger(processingTime="0 seconds").start()
        assert self.begun.wait(PATIENCE_S)

    def _do(self, batch: DataFrame, number: int) -> None:
        self.count += 1
        self.begun.set()
        self._work(batch)

    def stop(self) -> None:
        self.stopping.set()
        self.query.stop()


Work = Callable[[DataFrame], object]
Queries = Callable[[Work], Batches]


@pytest.fixture
def queries(spark: SparkSession) -> Iterator[Queries]:
    made: list[Batches] = []

    def start(work: Work) -> Batches:
        made.append(Batches(spark, work))
        return made[-1]

    yield start
    for each in made:
        each.stop()


def wait_in_java(batch: DataFrame) -> None:
    jvm = batch.sparkSession.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.Thread.sleep(LONG_MS)


def run_a_long_job(batch: DataFrame) -> None:
    batch.selectExpr(f"java_method('java.lang.Thread', 'sleep', {LONG_MS}L)").collect()


def write_files(batch: DataFrame) -> None:
    batch.write.format("noop").mode("overwrite").save()


class Following:
    """`follow` in a thread, as the jobs use it."""

    def __init__(
        self, batches: Batches, for_s: float = PATIENCE_S, stop_patience_s: float = STOP_PATIENCE_S
    ) -> None:
        self._error: BaseException | None = None
        self._arguments = (batches, for_s, stop_patience_s)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        batches, for_s, stop_patience_s = self._arguments
        try:
            follow(batches.query, "test", batches.gate, for_s=for_s, stop_patience_s=stop_patience_s)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("work", [wait_in_java, run_a_long_job, write_files])
def test_a_batch_that_is_stopped_is_no_error(queries: Queries, work: Work) -> None:
    for attempt in range(4):
        batches = queries(work)
        following = Following(batches)
        time.sleep(0.05 * attempt)  # the batch has come further each time
        batches.stop()
        following.end()


@pytest.mark.parametrize(
    ("why", "stopped"),
    [
        (None, True),  # what a second request to stop a query says
        ("Query [id = 1, runId = 2] was stopped", True),
        ("Query orders [id = 1, runId = 2] was stopped", True),
        ("somebody pressed kill", False),
    ],
)
def test_a_job_says_whether_it_was_cancelled_because_its_query_was_stopped(
    spark: SparkSession, why: str | None, stopped: bool
) -> None:
    context = spark.sparkContext
    context.setJobGroup("a query", "a batch of it")
    reported = ("a query",) if why is None else ("a query", why)
    ended = threading.Event()

    def cancel_once_it_runs() -> None:
        while not ended.wait(0.1):
            context._jsc.sc().cancelJobGroup(*reported)

    canceller = threading.Thread(target=cancel_once_it_runs)
    canceller.start()
    try:
        with pytest.raises(Py4JJavaError) as error:
            run_a_long_job(spark.range(1).toDF("id"))
    finally:
        ended.set()
        canceller.join(PATIENCE_S)
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert interrupted(error.value) is stopped


def test_a_batch_that_takes_too_long_after_the_end_is_given_up(queries: Queries) -> None:
    Following(queries(wait_in_java), for_s=0.0, stop_patience_s=0.5).end()


def test_an_error_of_a_batch_whose_query_stops_is_reported(queries: Queries) -> None:
    def fail(batch: DataFrame) -> None:
        time.sleep(3.0)  # longer than the patience: by then the query is being stopped
        raise PipelineError("the disk is full")

    with pytest.raises(PipelineError, match=r"^the test stopped: the disk is full$"):
        Following(queries(fail), for_s=0.0, stop_patience_s=0.5).end()


def test_an_unrequested_interruption_is_reported(queries: Queries) -> None:
    def cancel(batch: DataFrame) -> None:
        threading.Timer(1.0, batch.sparkSession.sparkContext.cancelAllJobs).start()
        run_a_long_job(batch)

    with pytest.raises(PipelineError, match=r"^the test stopped: .*cancelled"):
        Following(queries(cancel)).end()


def test_batches_that_follow_each_other_at_once_are_stopped_between_two(queries: Queries) -> None:
    ended: list[int] = []

    def work(batch: DataFrame) -> None:
        java = batch.sparkSession.sparkContext._jvm
        assert java is not None
        java.java.lang.Thread.sleep(700)
        ended.append(1)

    batches = queries(work)
    until(lambda: len(ended) > 1, "batches follow each other")
    began_s = time.monotonic()
    Following(batches, for_s=0.0).end()
    assert time.monotonic() - began_s < STOP_PATIENCE_S / 2
    assert batches.count == len(ended), "no batch was interrupted"
