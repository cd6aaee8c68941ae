"""Nodes find each other, as flags, files and commands say, and nobody else gets in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster_processes.nodes import Nodes
from tests.needs import OPENSSL
from tests.tls import certificates
from tests.tls.certificates import Authority
from tests.waiting import until

MIRROR3 = "mirror3@localhost"


def listed(nodes: Nodes) -> str:
    """One configuration file for every node."""
    lines = [
        f"cluster_formation.classic_config.nodes.{index + 1} = {nodes.seed(index)}" for index in range(3)
    ]
    return "\n".join(["cluster_formation.peer_discovery_backend = classic_config", *lines])


def test_nodes_with_a_join_address_form_a_cluster(nodes: Nodes) -> None:
    nodes.form()
    for index in range(3):
        code, out, _ = nodes.control(index, ["cluster_status", "--formatter", "json"])
        found = json.loads(out)
        assert code == 0
        assert found["disk_nodes"] == found["running_nodes"] == nodes.names
        assert list(found["listeners"]) == list(found["versions"]) == nodes.names
        assert (found["partitions"], found["ram_nodes"], found["alarms"]) == ({}, [], [])


def test_nodes_with_the_same_list_in_their_files_form_a_cluster_in_whatever_order_they_start(
    nodes: Nodes,
) -> None:
    for index in (2, 1, 0):
        nodes.spawn(index, conf=listed(nodes))
    for index in range(3):
        nodes.await_serving(index)
        nodes.await_running(index, 0, 1, 2)
    assert "this node creates one" in nodes.log(0)
    assert not any("this node creates one" in nodes.log(index) for index in (1, 2))


def test_the_first_of_a_list_creates_a_cluster_alone_if_no_other_node_comes(nodes: Nodes) -> None:
    nodes.start(0, conf=listed(nodes) + "\ncluster_formation.discovery_retry_limit = 2\n")
    assert nodes.ask(0, "running_nodes") == ["mirror1@localhost"]


def test_one_that_lost_its_disk_does_not_begin_another_cluster_and_is_let_in_once_it_is_forgotten(
    nodes: Nodes,
) -> None:
    for index in range(3):
        nodes.spawn(index, conf=listed(nodes))
    for index in range(3):
        nodes.await_running(index, 0, 1, 2)
    nodes.kill(0)
    for path in sorted(nodes.data(0).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    nodes.spawn(0, conf=listed(nodes))
    until(lambda: "is a member already" in nodes.log(0), lambda: nodes.log(0))
    until(lambda: nodes.control(1, ["forget_cluster_node", nodes.names[0]])[0] == 0, lambda: nodes.log(1))
    nodes.await_serving(0)
    nodes.await_running(0, 0, 1, 2)


def test_a_wrong_cookie_is_refused_and_both_sides_say_so(nodes: Nodes) -> None:
    nodes.start(0)
    nodes.spawn(1, "--join", nodes.seed(0), MIRRORMQ_COOKIE="another")
    until(lambda: "refused a peer connection" in nodes.log(0), lambda: nodes.log(0))
    until(lambda: "no link" in nodes.log(1), lambda: nodes.log(1))
    assert "of these tests" not in nodes.log(0) + nodes.log(1)
    assert nodes.ask(0, "running_nodes") == ["mirror1@localhost"]
    assert nodes.ask(1, "ping")["serving"] is False  # type: ignore[index]
    assert nodes.control(1, ["-q", "stop_app"])[0] == 0
    code, _, error = nodes.control(1, ["-q", "join_cluster", nodes.names[0]])
    assert (
        code,
        error.endswith(f"no link to it at localhost:{nodes.cluster_ports[0]}: the cookies differ\n"),
    ) == (
        69,
        True,
    )


@pytest.mark.skipif(not certificates.available(), reason=OPENSSL)
def test_links_run_in_tls_where_the_file_says_so_and_a_node_without_it_stays_out(
    nodes: Nodes, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority", "ours")
    pair = authority.issue("node", "/CN=localhost", "subjectAltName=DNS:localhost")
    conf = (
        f"cluster.ssl_options.cacertfile = {authority.pair.certificate}\n"
        f"cluster.ssl_options.certfile = {pair.certificate}\n"
        f"cluster.ssl_options.keyfile = {pair.key}\n"
    )
    nodes.start(0, conf=conf)
    nodes.start(1, "--join", nodes.seed(0), conf=conf)
    nodes.await_running(0, 0, 1)
    nodes.spawn(2, "--join", nodes.seed(0))
    until(lambda: "no link" in nodes.log(2), lambda: nodes.log(2))
    assert nodes.ask(2, "ping")["serving"] is False  # type: ignore[index]


def test_a_node_with_data_of_its_own_does_not_join_because_a_flag_says_so(nodes: Nodes) -> None:
    nodes.start(0)
    nodes.start(1)
    assert nodes.stop(1) == 0
    nodes.start(1, "--join", nodes.seed(0))
    assert nodes.ask(1, "running_nodes") == ["mirror2@localhost"]


def test_a_data_directory_belongs_to_one_name(nodes: Nodes, tmp_path: Path) -> None:
    nodes.start(0)
    nodes.stop(0)
    nodes.names[0] = "other@localhost"
    (tmp_path / "mirror1@localhost").rename(tmp_path / "other@localhost")
    nodes.spawn(0)
    until(lambda: nodes.processes[0].poll() is not None, lambda: nodes.log(0))
    assert "belongs to node mirror1@localhost, not to other@localhost" in nodes.log(0)


def test_joining_an_absent_node_changes_nothing(nodes: Nodes) -> None:
    nodes.start(0)
    with nodes.channel(0) as channel:
        channel.queue_declare("kept", durable=True)
    assert nodes.control(0, ["-q", "stop_app"])[0] == 0
    code, _, error = nodes.control(0, ["-q", "join_cluster", f"nobody@localhost:{nodes.cluster_ports[2]}"])
    assert code == 69
    assert "unable to perform an operation on node 'nobody@localhost'" in error
    assert "Connection refused" in error
    nodes.spawn(1)
    nodes.await_serving(1)
    assert nodes.control(1, ["-q", "stop_app"])[0] == 0
    code, _, error = nodes.control(0, ["-q", "join_cluster", nodes.names[1]])
    assert (code, error) == (69, "Error:\nmnesia_not_running\n")
    assert nodes.control(0, ["-q", "start_app"])[0] == 0
    assert nodes.control(0, ["-q", "list_queues", "name", "--no-table-headers"])[1] == "kept\n"


def test_a_node_forgotten_while_it_was_down_does_not_come_back_until_it_is_reset(nodes: Nodes) -> None:
    nodes.form()
    assert nodes.stop(2) == 0
    nodes.await_running(0, 0, 1)
    assert nodes.control(0, ["forget_cluster_node", MIRROR3])[0] == 0
    nodes.spawn(2)
    until(lambda: "has taken this node out" in nodes.log(2), lambda: nodes.log(2))
    assert nodes.ask(2, "ping")["serving"] is False  # type: ignore[index]
    assert nodes.control(2, ["-q", "stop_app"])[0] == 0
    code, _, error = nodes.control(2, ["-q", "start_app"])
    assert (code, "inconsistent_cluster" in error) == (69, True)
    assert nodes.control(2, ["-q", "reset"])[0] == 0
    assert nodes.control(2, ["-q", "join_cluster", nodes.names[0]])[0] == 0
    assert nodes.control(2, ["-q", "start_app"])[0] == 0
    nodes.await_running(0, 0, 1, 2)


def test_a_node_that_will_not_come_back_is_forgotten_by_one_that_is_down(nodes: Nodes) -> None:
    nodes.form()
    with nodes.channel(0) as channel:
        channel.exchange_declare("kept", durable=True)
    for index in (0, 1, 2):
        nodes.kill(index)
    data = {"MIRRORMQ_DATA_DIRECTORY": str(nodes.data(0))}
    for name in nodes.names[1:]:
        assert nodes.control(0, ["forget_cluster_node", "--offline", name], **data)[0] == 0
    nodes.start(0)
    until(lambda: nodes.control(0, ["cluster_status"])[1].count("mirror2") == 0, lambda: nodes.log(0))
    with nodes.channel(0) as channel:
        channel.exchange_declare("kept", passive=True)


def test_force_boot_of_a_stopped_node_makes_it_start_without_its_peers(nodes: Nodes) -> None:
    nodes.form()
    for index in (0, 1, 2):
        nodes.kill(index)
    code, _, error = nodes.control(0, ["force_boot"])
    assert (code, "set MIRRORMQ_DATA_DIRECTORY to its data directory" in error) == (69, True)
    data = {"MIRRORMQ_DATA_DIRECTORY": str(nodes.data(0))}
    assert nodes.control(0, ["force_boot"], **data) == (0, "", "")
    nodes.start(0)
    for index in (1, 2):
        nodes.start(index)
    nodes.await_running(0, 0, 1, 2)


def test_a_node_that_cannot_be_forgotten_as_was_noted_does_not_keep_another_from_starting(
    nodes: Nodes,
) -> None:
    nodes.form()
    nodes.kill(0)
    data = {"MIRRORMQ_DATA_DIRECTORY": str(nodes.data(0))}
    for name in nodes.names[:2]:
        code, _, error = nodes.control(0, ["forget_cluster_node", "--offline", name], **data)
        assert (code, "removing_node_from_offline_node" in error) == (69, True)
    elsewhere = {"MIRRORMQ_RUNTIME_DIR": str(nodes.directory)}
    assert nodes.control(0, ["forget_cluster_node", "--offline", MIRROR3], **data, **elsewhere)[0] == 0
    nodes.start(0)
    until(lambda: "removing mirror3@localhost from the cluster failed" in nodes.log(0), lambda: nodes.log(0))
    nodes.await_running(0, 0, 1, 2)


def test_a_note_is_left_in_the_directory_of_its_node_only(nodes: Nodes) -> None:
    nodes.start(0)
    data = {"MIRRORMQ_DATA_DIRECTORY": str(nodes.data(0))}
    code, _, error = nodes.control(1, ["forget_cluster_node", "--offline", MIRROR3], **data)
    assert (code, "is not the data directory of mirror2@localhost" in error) == (69, True)
