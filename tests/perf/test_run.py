"""The load generator against real brokers: its report matches the broker's state."""

from __future__ import annotations

import json
import subprocess
import sys

import pika
import pytest

from mirrormq.perf.load_run import run
from mirrormq.perf.perf_options import PerfError, PerfOptions
from tests.brokers.ports import free_port


@pytest.fixture(params=["rabbitmq", "mirrormq"])
def uri(request: pytest.FixtureRequest) -> str:
    """Both brokers, one after the other."""
    broker = request.getfixturevalue(request.param)
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/%2F"


def ready(uri: str, queue: str) -> int:
    """Return the number of messages in a queue, as seen by pika."""
    with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


def delete(uri: str, queue: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
        connection.channel().queue_delete(queue)


@pytest.mark.parametrize("window", [0, 7, 1000])
def test_published_messages_are_in_the_queue_and_can_all_be_consumed(uri: str, window: int) -> None:
    queue = f"perf-published-{window}"
    report = run(PerfOptions([uri], "publish", queue, messages=2345, confirm_window=window, producers=2))
    assert report.published == 2345
    assert report.confirmed == (2345 if window else 0)
    assert ready(uri, queue) == 2345
    report = run(PerfOptions([uri], "consume", queue, messages=2345, prefetch=50, ack_every=20))
    assert report.consumed == 2345
    assert ready(uri, queue) == 0
    delete(uri, queue)


def test_bodies_of_varied_sizes_all_come_back(uri: str) -> None:
    run(PerfOptions([uri], "publish", "perf-vary", messages=3000, vary=True))
    assert ready(uri, "perf-vary") == 3000
    report = run(PerfOptions([uri], "consume", "perf-vary", messages=3000, vary=True))
    assert report.consumed == 3000
    assert report.deliver_latency_ms
    assert ready(uri, "perf-vary") == 0
    delete(uri, "perf-vary")


def test_several_queues_are_shared_out_and_all_emptied(uri: str) -> None:
    options = PerfOptions([uri], "publish", "perf-many", messages=3000, queues=5, producers=2, batch=100)
    assert run(options).published == 3000
    names = options.queue_names
    assert sum(ready(uri, name) for name in names) == 3000
    assert all(ready(uri, name) for name in names)
    consumed = run(PerfOptions([uri], "consume", "perf-many", messages=3000, queues=5, consumers=3)).consumed
    assert consumed == 3000
    for name in names:
        assert ready(uri, name) == 0
        delete(uri, name)


def test_both_ends_run_and_the_queue_is_gone_afterwards(uri: str) -> None:
    options = PerfOptions([uri], "both", "perf-both", duration=2.0, warmup=0.1, durable=True, persistent=True)
    report = run(options)
    assert report.confirmed > 0
    assert report.consumed > 0
    assert 0 < report.deliver_latency_ms["p50"] <= report.deliver_latency_ms["p99"]
    assert 0 < report.confirm_latency_ms["p50"] <= report.confirm_latency_ms["max"]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        ready(uri, "perf-both")


def test_a_body_larger_than_a_frame_travels_through_an_exchange(uri: str) -> None:
    options = PerfOptions([uri], "both", "perf-large", exchange="perf-exchange", size=300_000, messages=40)
    report = run(options)
    assert report.consumed == 40


def test_many_connections_send_to_themselves(uri: str) -> None:
    report = run(PerfOptions([uri], "latency", connections=20, duration=2.0, warmup=0.1))
    assert report.consumed > 20
    assert report.deliver_latency_ms["p99"] > 0


def test_a_rate_is_kept(uri: str) -> None:
    report = run(PerfOptions([uri], "both", "perf-rate", rate=500, duration=4.0, warmup=0.2))
    assert 400 <= report.rate(report.published) <= 600


def test_the_command_prints_json(uri: str) -> None:
    command = [sys.executable, "-m", "mirrormq.perf", "--uri", uri, "--queue", "perf-json", "--json"]
    done = subprocess.run(
        [*command, "--messages", "100"], capture_output=True, text=True, check=True, timeout=60
    )
    answer = json.loads(done.stdout)
    assert answer["consumed"] >= 100
    assert answer["consumed_per_second"] > 0


def test_a_wrong_durability_is_reported_with_the_brokers_text(uri: str) -> None:
    run(PerfOptions([uri], "publish", "perf-durability", messages=1))
    with pytest.raises(PerfError, match="PRECONDITION_FAILED"):
        run(PerfOptions([uri], "publish", "perf-durability", messages=1, durable=True))
    delete(uri, "perf-durability")


def test_a_refused_connection_is_one_sentence_and_a_failure() -> None:
    command = [sys.executable, "-m", "mirrormq.perf", "--uri", f"amqp://127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "is a broker running there?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (PerfOptions(mode="sideways"), "--mode is one of"),
        (PerfOptions(["http://127.0.0.1"]), "must begin with amqp://"),
        (PerfOptions(["amqp://127.0.0.1:99999"]), "from 1 to 65535"),
        (PerfOptions(producers=0), "--producers must be at least 1"),
        (PerfOptions(ack_every=10, prefetch=5), "--ack-every cannot be larger"),
        (PerfOptions(mode="latency", size=3), "--mode latency needs"),
        (PerfOptions(duration=0), "--duration must be more than 0"),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_is_dialled(
    options: PerfOptions, complaint: str
) -> None:
    with pytest.raises(PerfError, match=complaint):
        run(options)
