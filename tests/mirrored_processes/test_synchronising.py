"""Mirrors that join are brought up to date while all goes on: shown, stopped, taken up again, paced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import drain, mirror, publish, queue, synchronised
from tests.waiting import until

BODIES = [b"%d" % number + bytes(20_000) for number in range(300)]
PACE = "mirroring_sync_max_throughput = 400KB\n"
"""Rate at which six megabytes take fifteen seconds, long enough to be observed on a busy machine."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, conf=PACE) as cluster:
        yield cluster


def test_a_synchronisation_is_shown_stopped_and_continued_while_publishers_go_on(cluster: Cluster) -> None:
    publish(cluster, "q", *BODIES)
    mirror(cluster, ha_mode="all", ha_sync_mode="manual")
    until(lambda: len(queue(cluster, "q").get("slave_nodes", ())) == 2)
    cluster.ctl("sync_queue", "q", node=1)
    seen = until(lambda: queue(cluster, "q", node=2).get("sync_messages"))
    assert 0 < seen < len(BODIES)
    assert "{syncing, " in cluster.ctl("-q", "list_queues", "name", "state", node=2)
    publish(cluster, "q", b"meanwhile", node=1)
    assert synchronised(cluster, "q") == set(), "a confirm did not wait for the mirrors to be complete"
    cluster.ctl("cancel_sync_queue", "q", node=2)
    until(lambda: queue(cluster, "q")["state"] == "running")
    lacks = queue(cluster, "q")["mirrormq"]["lacks"]
    assert all(0 < lacks[cluster.name(index)] < len(BODIES) for index in (1, 2))
    cluster.ctl("sync_queue", "q", node=1)
    until(lambda: len(synchronised(cluster, "q")) == 2)
    cluster.kill(0)
    until(lambda: queue(cluster, "q", node=1)["node"] != cluster.name(0))
    assert drain(cluster, "q", node=2) == [*BODIES, b"meanwhile"]
    cluster.start(0)


def test_a_mirror_that_was_away_is_given_the_difference(cluster: Cluster) -> None:
    """At the pace of this cluster the whole queue would take fifteen seconds; a few messages take none."""
    mirror(cluster, ha_mode="all", ha_sync_mode="automatic")
    publish(cluster, "away", *BODIES)
    until(lambda: len(synchronised(cluster, "away")) == 2)
    cluster.kill(2)
    publish(cluster, "away", b"while it was away")
    cluster.start(2)
    progress = until(
        lambda: (
            queue(cluster, "away")["mirrormq"]["sync"].get(cluster.name(2))
            or (cluster.name(2) in synchronised(cluster, "away") and {"total": 0})
        )
    )
    assert progress["total"] < len(BODIES)
    until(lambda: len(synchronised(cluster, "away")) == 2, patience_s=12)
    cluster.ctl("move_master", "away", cluster.name(2))
    until(lambda: queue(cluster, "away")["node"] == cluster.name(2))
    assert drain(cluster, "away", node=1) == [*BODIES, b"while it was away"]
