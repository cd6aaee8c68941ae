"""Disks that fail under a cluster of real nodes: nothing confirmed is lost, and the fault is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mirrored_processes.disk_faults import QUEUES, ROUND, FaultyCluster
from tests.mirrored_processes.range_requests import drain, publish, queue, synchronised
from tests.waiting import until


@pytest.fixture
def cluster() -> Iterator[FaultyCluster]:
    with FaultyCluster() as cluster:
        cluster.declare()
        cluster.publish()
        yield cluster


@pytest.mark.parametrize("serving", [False, True], ids=["votes-first", "serves-first"])
def test_journal_of_the_master_is_removed_while_all_are_down(cluster: FaultyCluster, serving: bool) -> None:
    cluster.kill_all()
    cluster.remove_journal(0)
    cluster.start_all(*((1, 0) if serving else (0, 1)))
    cluster.check_nothing_lost()
    cluster.await_synchronised()
    cluster.check_fault(0, "replaced")


def test_bytes_of_the_masters_journal_are_overwritten_while_all_are_down(cluster: FaultyCluster) -> None:
    cluster.kill_all()
    cluster.overwrite_journal(0)
    cluster.start_all(voter=0, server=1)
    cluster.check_nothing_lost()
    cluster.await_synchronised()
    cluster.check_fault(0, "damaged")


def test_an_older_copy_of_a_data_directory_is_put_back_while_all_are_down(
    cluster: FaultyCluster, tmp_path: Path
) -> None:
    """A copy of a running node after all were killed, then one of a stopped node after all were stopped."""
    cluster.copy(0, tmp_path / "running")
    cluster.consume(ROUND // 2)
    cluster.publish()
    cluster.kill_all()
    cluster.put_back(0, tmp_path / "running")
    cluster.start_all(voter=0, server=1)
    # The copy was taken in the last incarnation. Its journal's generation is as expected, so there is
    # no fault to report: only the comparison of positions keeps this node from being promoted.
    cluster.await_synchronised()

    faulty = cluster.master("when-synced")
    second, last = (index for index in range(3) if index != faulty)
    cluster.stop_all(faulty)
    cluster.copy(faulty, tmp_path / "stopped")
    cluster.start(faulty)
    cluster.await_synchronised()
    cluster.consume(ROUND // 2)
    cluster.publish()
    cluster.stop_all(faulty, second, last)
    cluster.put_back(faulty, tmp_path / "stopped")
    cluster.start_all(voter=faulty, server=second)
    cluster.await_synchronised()
    cluster.check_fault(faulty, "outdated")
    cluster.check_nothing_lost()


def test_journal_of_one_node_is_removed_while_the_others_run(cluster: FaultyCluster) -> None:
    """Its copy of a queue that is synchronised by hand stays untrusted until it is synchronised."""
    cluster.ctl("set_policy", "manual", "^manual$", '{"ha-mode":"all"}', "--apply-to", "queues")
    publish(cluster, "manual", b"kept")
    cluster.kill(0)
    cluster.remove_journal(0)
    cluster.start(0)
    cluster.check_fault(0, "replaced")
    cluster.publish()
    cluster.await_synchronised()
    faulty, master = cluster.name(0), cluster.master("manual")
    assert queue(cluster, "manual")["mirrormq"]["untrusted"] == [faulty]
    assert queue(cluster, "always")["mirrormq"]["untrusted"] == []
    assert cluster.metric(master, "mirrormq_queue_copies_untrusted") == 1
    listed = cluster.ctl("-q", "list_queues", "name", "untrusted_mirror_nodes")
    assert f"manual\t[{faulty}]" in listed and "always\t[]" in listed
    cluster.ctl("sync_queue", "manual")
    until(lambda: queue(cluster, "manual")["mirrormq"]["untrusted"] == [], "the copy has caught up")
    cluster.check_nothing_lost()
    assert drain(cluster, "manual") == [b"kept"]


def test_promotion_without_a_member_is_reported() -> None:
    """Under `always` the mirrors go on without the master's copy after the timeout; else they wait."""
    with FaultyCluster(promotion_timeout_ms=1000) as cluster:
        cluster.declare()
        cluster.publish(20)
        cluster.kill_all()
        cluster.start_two(1, 2)
        until(lambda: queue(cluster, "always", 1)["state"] == "running", "the timeout ends the wait")
        master = cluster.master("always", 1)
        promoted = f"node {cluster.name(master)} is promoted without the copies of {cluster.name(0)}, which"
        until(lambda: promoted in cluster.logged(master), promoted)
        assert cluster.metric(master, "mirrormq_promotions_incomplete_total") == 1
        assert queue(cluster, "when-synced", 1)["state"] == "down"
        cluster.start(0)
        until(lambda: queue(cluster, "when-synced", 1)["state"] == "running", "all copies are compared")
        cluster.await_synchronised()
        cluster.check_nothing_lost()


@pytest.mark.parametrize("taken", ["before the last run", "in the last run"])
def test_the_node_that_stops_last_gets_an_older_copy_of_its_data_directory(
    cluster: FaultyCluster, tmp_path: Path, taken: str
) -> None:
    """The node was alone in its rings. The nodes that stopped before it have every confirmed message."""
    if taken == "before the last run":
        cluster.stop_all(0)
        cluster.copy(0, tmp_path / "older")
        cluster.start(0)
        cluster.await_synchronised()
        for name in QUEUES:
            cluster.ctl("move_master", name, cluster.name(0))
    else:
        cluster.copy(0, tmp_path / "older")
    cluster.await_synchronised()
    cluster.publish()
    cluster.stop_all(1, 2, 0)
    cluster.put_back(0, tmp_path / "older")
    cluster.start_all(voter=2, server=0, alone=True)
    cluster.check_nothing_lost()
    cluster.await_synchronised()
    cluster.check_fault(0, "outdated")


def test_the_node_that_stops_last_loses_its_journal(cluster: FaultyCluster) -> None:
    cluster.stop_all(1, 2, 0)
    cluster.remove_journal(0)
    cluster.start_all(voter=2, server=0, alone=True)
    cluster.check_nothing_lost()
    cluster.await_synchronised()
    cluster.check_fault(0, "replaced")


def test_the_node_that_stops_last_serves_at_once_if_its_disk_is_sound(cluster: FaultyCluster) -> None:
    """The node may have confirmed more than its peers have, so it does not wait for them."""
    cluster.stop_all(1, 2, 0)
    cluster.start_two(0, 2)
    for name in QUEUES:
        until(lambda name=name: queue(cluster, name)["state"] == "running", f"{name} has a master")  # type: ignore[misc]
        assert cluster.master(name) == 0
    cluster.start(1)
    cluster.await_synchronised()
    cluster.check_nothing_lost()


def test_messages_that_only_a_damaged_disk_has_are_published_again(cluster: FaultyCluster) -> None:
    """The mirror left before they were confirmed. It is promoted; the damaged node makes orphans of them."""
    nodes = [cluster.name(0), cluster.name(1)]
    policy = {"ha-mode": "nodes", "ha-params": nodes, "ha-sync-mode": "automatic"}
    definition = json.dumps({**policy, "ha-promote-on-failure": "when-synced"})
    cluster.ctl("set_policy", "pair", "^pair$", definition, "--apply-to", "queues")
    bodies = [b"%d " % number + b"." * 100 for number in range(60)]
    publish(cluster, "pair", *bodies[:40])
    until(lambda: synchronised(cluster, "pair") == {cluster.name(1)}, "the mirror is synchronised")
    cluster.stop(1)
    publish(cluster, "pair", *bodies[40:])
    cluster.kill(0)
    cluster.overwrite_journal(0)
    cluster.start(1)
    assert queue(cluster, "pair", 1)["state"] == "down", "node 0 has confirmed more"
    cluster.start(0)
    until(
        lambda: queue(cluster, "pair", 1).get("messages") == len(bodies),
        lambda: f"{queue(cluster, 'pair', 1)}",
    )
    assert cluster.master("pair", 1) == 1
    assert drain(cluster, "pair") == bodies
    cluster.await_synchronised()
    cluster.check_nothing_lost()
