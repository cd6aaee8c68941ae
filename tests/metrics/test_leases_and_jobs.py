"""Metrics of leases and of jobs outside the broker."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.ranges.range_requests import Asker, bodies

QUEUE = "metrics of leases"


@pytest.fixture
def asker(mirrormq: MirrorMQ) -> Iterator[Asker]:
    asker = Asker(f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F")
    asker.channel.queue_declare(QUEUE, durable=True)
    yield asker
    asker.channel.queue_delete(QUEUE)
    asker.close()


def scraped(mirrormq: MirrorMQ, path: str) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{mirrormq.management_port}{path}") as reply:
        lines = [line for line in reply.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_leases_and_job_reports_are_scraped(mirrormq: MirrorMQ, asker: Asker) -> None:
    before = scraped(mirrormq, "/metrics")
    asker.publish(QUEUE, *bodies(10))
    held = asker.read(QUEUE, 1, 7)
    assert len(held) == 6
    asker.take(QUEUE, "job", 1, 6)
    numbers = {"behind": 4, "per_second": 12, "note": "text"}
    for state, job in (("running", "metrics-1"), ("done", "metrics-2")):
        asker.ask("report", job=job, kind="archive", state=state, numbers=numbers)
    after = scraped(mirrormq, "/metrics")
    assert after["mirrormq_leases"] == before["mirrormq_leases"] + 1
    assert after["mirrormq_lease_messages"] == before["mirrormq_lease_messages"] + 6
    assert after["mirrormq_lease_idle_seconds"] >= 0
    assert after['mirrormq_jobs{state="running"}'] == before['mirrormq_jobs{state="running"}'] + 1
    assert after['mirrormq_jobs{state="done"}'] == before['mirrormq_jobs{state="done"}'] + 1
    each = scraped(mirrormq, "/metrics/per-object")
    lease = f'{{vhost="/",queue="{QUEUE}",lease="job"}}'
    assert each[f"mirrormq_lease_messages{lease}"] == 6
    assert each[f"mirrormq_lease_bytes{lease}"] == sum(len(row.body) for row in held)
    assert 0 <= each[f"mirrormq_lease_idle_seconds{lease}"] < 60
    job = 'vhost="/",job_name="metrics-1",kind="archive"'
    assert each[f'mirrormq_job_number{{{job},number="behind"}}'] == 4
    assert each[f'mirrormq_job_number{{{job},number="per_second"}}'] == 12
    assert not [name for name in each if "metrics-2" in name or 'number="note"' in name]
    assert asker.release(QUEUE, "job") == 6
