"""Reports of jobs to the cluster; a broker that refuses them does not matter."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pika
import pytest
from pyspark.sql import SparkSession

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.jobs.archive import ArchiveOptions, archive
from mirrormq.spark.jobs.reporter import END_TIMEOUT_S, JobReporter
from mirrormq.spark.pipeline_errors import PipelineError
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.brokers.rabbitmq import RabbitMQ
from tests.waiting import until


def addresses(port: int) -> Sequence[AmqpUri]:
    return parse_uris(f"amqp://guest:guest@127.0.0.1:{port}/%2F")


def jobs(mirrormq: MirrorMQ, path: str = "") -> Any:
    url = f"http://127.0.0.1:{mirrormq.management_port}/api/mirrormq/jobs{path}"
    request = urllib.request.Request(url)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def job(mirrormq: MirrorMQ, name: str) -> dict[str, Any]:
    found: dict[str, Any] = jobs(mirrormq, f"/%2F/{name}")
    return found


def test_a_job_is_seen_while_it_runs_and_how_it_ended(mirrormq: MirrorMQ) -> None:
    with JobReporter(addresses(mirrormq.amqp_port), "archive", "about to start") as reporter:
        reporter.update("batch 3", {"messages": 10, "per_second": 2.5}, [{"queue": "a", "count": 1}])
        found = until(lambda: [each for each in jobs(mirrormq) if each["job"] == reporter.job])
        assert (found[0]["kind"], found[0]["state"]) == ("archive", "running")
    ended = job(mirrormq, reporter.job)
    assert (ended["state"], ended["text"]) == ("done", "batch 3")
    assert ended["numbers"] == {"messages": 10, "per_second": 2.5}
    assert ended["table"] == [{"queue": "a", "count": 1}]


def test_a_job_that_fails_says_why(mirrormq: MirrorMQ) -> None:
    with pytest.raises(PipelineError), JobReporter(addresses(mirrormq.amqp_port), "replay", "x") as reporter:
        raise PipelineError("the disk is full")
    failed = job(mirrormq, reporter.job)
    assert (failed["state"], failed["text"]) == ("failed", "the disk is full")


@pytest.mark.rabbitmq
def test_a_rabbitmq_and_a_dead_node_are_left_alone(rabbitmq: RabbitMQ) -> None:
    with JobReporter(addresses(rabbitmq.amqp_port), "stats", "x") as reporter:
        reporter._thread.join(10)
        assert not reporter._thread.is_alive(), "it knows no reports and is not asked again"
        reporter.update("more")
    began = time.monotonic()
    with JobReporter(addresses(free_port()), "stats", "x"):
        pass
    assert time.monotonic() - began < END_TIMEOUT_S + 1


def test_an_archive_is_a_job(spark: SparkSession, mirrormq: MirrorMQ, tmp_path: Path) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare("reported", durable=True)
    for _ in range(7):
        channel.basic_publish("", "reported", b"x")
    channel.queue_declare("reported", passive=True)
    assert archive(spark, ArchiveOptions(uri, "reported", str(tmp_path / "out"), once=True)) == 7
    channel.queue_delete("reported")
    connection.close()
    found = next(each for each in jobs(mirrormq) if str(tmp_path) in each["text"])
    assert (found["kind"], found["state"]) == ("archive", "done")
    assert found["text"] == f"7 messages archived in {tmp_path / 'out'}"
    numbers = found["numbers"]
    assert (numbers["messages"], numbers["behind"], numbers["bytes_behind"]) == (7, 0, 0)
    assert numbers["lease_age_s"] >= 0 and numbers["per_second"] > 0
