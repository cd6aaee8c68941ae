"""Jobs' reports: who may send and see them, on any node and after the failure of one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from mirrormq.leases import job_reports
from mirrormq.metadata.records import Job
from mirrormq.ranges import range_limits, range_protocol
from mirrormq.testing import Cluster
from mirrormq.wire.fields import plain
from tests.management.http import Client, part
from tests.ranges.range_requests import Asker, Refused


@pytest.fixture
def range_client(cluster: Cluster) -> Iterator[Asker]:
    range_client = Asker(cluster.uri(0))
    yield range_client
    range_client.close()


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return Client(cluster.management_port(1))


def report(range_client: Asker, job: str, **more: Any) -> bool:
    values = {"job": job, "kind": "archive", "state": "running", "text": "batch 3", **more}
    return bool(range_client.ask("report", **values).headers["kept"])


def words(client: Client, job: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"mirrormq/jobs/%2F/{part(job)}")
    return found


def test_every_node_shows_a_job(cluster: Cluster, range_client: Asker, client: Client) -> None:
    numbers = {"rows": 1 << 40, "rows_per_s": Decimal("12.5"), "to": "/archive", "last": True}
    rows = [{"queue": "orders", "messages": 3, "note": None}]
    assert report(range_client, "nightly", numbers=numbers, table=json.dumps(rows))
    found = words(client, "nightly")
    assert found["reported"] == found["started"] and found["age"] <= 20
    assert {name: found[name] for name in ("vhost", "job", "kind", "state", "text", "user", "node")} == {
        "vhost": "/", "job": "nightly", "kind": "archive", "state": "running", "text": "batch 3",
        "user": "guest", "node": cluster.name(0),
    }  # fmt: skip
    assert (found["numbers"], found["table"]) == (numbers, rows)
    (listed,) = [row for row in client.get("mirrormq/jobs/%2F") if row["job"] == "nightly"]
    assert "table" not in listed and listed["numbers"] == numbers
    (row,) = json.loads(cluster.ctl("-q", "list_jobs", "--formatter", "json", node=2))
    assert row.pop("age") <= 60
    assert row == {"job": "nightly", "kind": "archive", "state": "running", "text": "batch 3"}


def test_reports_of_the_builder_are_understood(range_client: Asker, client: Client) -> None:
    many = [{"queue": f"queue {number}", "per_second": float("nan")} for number in range(5000)]
    reported = range_protocol.report(
        "built", "stats", "done", "é" * 2000, {"rows": 7, "rate": float("inf")}, many
    )
    range_client.wait(range_client.put(plain(reported)))
    found = words(client, "built")
    assert found["numbers"] == {"rows": 7}
    assert found["text"] == "é" * (range_limits.JOB_TEXT_BYTES_MAX // 2)
    assert found["table"] == [{**row, "per_second": None} for row in many[: len(found["table"])]]
    assert 1000 < len(found["table"]) < 5000


def test_a_job_that_chatters_is_not_kept_but_its_end_is(range_client: Asker, client: Client) -> None:
    """Check the limit of a job's reports. A busy disk may take longer for the first report than a job
    waits before the second."""
    for attempt in range(50):
        job, began = f"hasty {attempt}", time.monotonic()
        assert report(range_client, job, text="one")
        kept = report(range_client, job, text="two")
        if time.monotonic() - began < range_limits.JOB_REPORT_INTERVAL_MS / 1000:
            break
    assert not kept
    assert words(client, job)["text"] == "one"
    assert report(range_client, job, state="failed", text="three")
    found = words(client, job)
    assert (found["state"], found["text"]) == ("failed", "three")
    assert found["started"] < found["reported"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "sleeping"}, {"job": ""}, {"job": "j" * 256}, {"kind": 3}, {"text": "t" * 1025},
        {"numbers": 3}, {"numbers": {"list": [1]}}, {"numbers": {f"n{n}": 1 for n in range(65)}},
        {"numbers": {"n" * 65: 1}}, {"numbers": {"text": "t" * 256}}, {"table": "{"}, {"table": '{"a":1}'},
        {"table": '[{"a":[1]}]'}, {"table": "[" + " " * range_limits.JOB_TABLE_BYTES_MAX + "]"},
        {"table": json.dumps([{f"c{n}": 1 for n in range(33)}])}, {"table": b"\xff"},
    ],
)  # fmt: skip
def test_a_forbidden_request_is_refused_and_the_channel_stays_open(
    range_client: Asker, wrong: dict[str, Any]
) -> None:
    with pytest.raises(Refused, match="PRECONDITION_FAILED") as refused:
        report(range_client, **{"job": "wrong", **wrong})
    assert refused.value.code == 406
    assert range_client.channel.is_open


def test_a_job_is_its_users(cluster: Cluster, range_client: Asker) -> None:
    for name, tags in (("eve", "management"), ("mona", "monitoring"), ("nobody", "management")):
        cluster.ctl("add_user", name, name)
        cluster.ctl("set_user_tags", name, tags)
    cluster.ctl("set_permissions", "eve", "^$", "^$", "^$")
    eve = Asker(cluster.uri(1).replace("guest:guest", "eve:eve"))
    assert report(range_client, "guests") and report(eve, "eves")
    with pytest.raises(Refused) as refused:
        report(eve, "guests")
    said = "ACCESS_REFUSED - access to job 'guests' in vhost '/' refused for user 'eve'"
    assert (refused.value.code, refused.value.text) == (403, said)
    port = cluster.management_port(2)
    of_eve, of_mona, of_nobody = [Client(port, name, name) for name in ("eve", "mona", "nobody")]
    for sees in (of_eve, of_mona):
        assert {"guests", "eves"} <= {row["job"] for row in sees.get("mirrormq/jobs")}
    assert of_nobody.get("mirrormq/jobs") == []
    assert of_nobody.request("GET", "mirrormq/jobs/%2F/eves").status == 401
    refusal = of_eve.delete("mirrormq/jobs/%2F/guests")
    assert (refusal.status, refusal.json["reason"]) == (401, said.partition(" - ")[2])
    assert of_eve.delete("mirrormq/jobs/%2F/eves").status == 204
    assert Client(port).delete("mirrormq/jobs/%2F/guests").status == 204
    assert Client(port).delete("mirrormq/jobs/%2F/guests").status == 404
    eve.close()


def test_a_node_without_reports_is_shown_as_silent() -> None:
    job = Job("/", "j", "replay", "running", "guest", "a@b", 1_000)
    shown = [job_reports.job_row(job, 1_000 + range_limits.JOB_SILENT_MS + more)["state"] for more in (-1, 0)]
    assert shown == ["running", "silent"]
    over = Job("/", "j", "replay", "done", "guest", "a@b", 1_000)
    assert job_reports.job_row(over, 1 << 60)["state"] == "done"


def test_a_job_outlives_the_node_that_took_its_report(cluster: Cluster, client: Client) -> None:
    other = Asker(cluster.uri(2))
    assert report(other, "survivor")
    cluster.kill(2)
    deadline = time.monotonic() + 30
    last = Asker(cluster.uri(0))
    assert words(client, "survivor")["node"] == cluster.name(2)
    assert report(last, "survivor", state="done")
    while words(client, "survivor")["node"] != cluster.name(0):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert words(client, "survivor")["state"] == "done"
    last.close()
