"""Protocol versions of members: commands that an older member does not know wait for its upgrade."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS
from mirrormq.cluster.cluster_messages import JoinRefused, JoinRequest
from mirrormq.metadata import commands as c
from mirrormq.metadata.command_versions import INTRODUCED, MembersTooOld, knows_log_indexes, lowest_version
from mirrormq.metadata.records import Parameter
from mirrormq.protocol_version import PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST
from mirrormq.simulator.tight_limits import RunLimits
from tests.cluster.controllers import Cluster
from tests.cluster.members import World

SHOVEL = c.PutParameter(Parameter("/", "shovel", "s", {}))
RESTART = c.RestartLink("/", "shovel", "s")


def restart(cluster: Cluster, name: str, version: int) -> None:
    node = cluster.nodes[name]
    node.die(power=False)
    node.version = version
    node.start()
    cluster.until(lambda: cluster.serving() == cluster.names)


def test_every_member_states_its_version_when_it_starts_to_serve() -> None:
    cluster = Cluster(3)
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    assert [node.version for node in cluster.state("a").nodes.values()] == [3, 2, 3]
    assert lowest_version(cluster.state("a")) == PROTOCOL_VERSION_OLDEST


def test_links_are_placed_when_the_last_member_is_upgraded() -> None:
    cluster = Cluster(3)
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    cluster.write("a", SHOVEL)
    cluster.run(5000)
    assert not cluster.state("a").links
    restart(cluster, "b", PROTOCOL_VERSION)
    cluster.until(lambda: cluster.state("b").links)


def test_a_command_that_a_member_does_not_know_is_refused_with_the_members_name() -> None:
    cluster = Cluster(3)
    cluster.write("a", RESTART)
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    restart(cluster, "c", PROTOCOL_VERSION_OLDEST)
    text = "needs version 3 of the cluster protocol on every node; upgrade b, c first"
    with pytest.raises(MembersTooOld, match=text):
        cluster.nodes["a"].member.metadata.write(RESTART)


def test_a_version_that_an_older_node_has_dropped_is_stated_again() -> None:
    """Nodes of version 2 lack the field, in records that they write and in snapshots."""
    cluster = Cluster(3)
    record = cluster.state("a").nodes["b"]
    cluster.write("a", c.PutNode(msgspec.structs.replace(record, version=PROTOCOL_VERSION_OLDEST)))
    cluster.until(lambda: lowest_version(cluster.state("a")) == PROTOCOL_VERSION)
    entries = cluster.nodes["a"].member.consensus.state.log.last
    cluster.run(2000)
    assert cluster.nodes["a"].member.consensus.state.log.last == entries, "once is enough"


def test_static_shovels_that_an_older_node_has_dropped_are_stated_again_and_wait_for_its_upgrade() -> None:
    cluster = Cluster(3)
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    cluster.nodes["a"].member.static_shovels = ("s",)
    cluster.until(lambda: cluster.state("c").nodes["a"].static_shovels == ("s",))
    record = cluster.state("c").nodes["a"]
    cluster.write("c", c.PutNode(msgspec.structs.replace(record, static_shovels=())))
    cluster.until(lambda: cluster.state("c").nodes["a"].static_shovels == ("s",))
    cluster.run(2000)
    assert not cluster.state("a").links
    restart(cluster, "b", PROTOCOL_VERSION)
    cluster.until(lambda: cluster.state("b").links)
    assert cluster.state("b").links["", "static-shovel", "s"].node == "a"


def test_an_older_node_does_not_join_members_that_are_all_newer() -> None:
    world = World()
    world.found("a")
    world.join("b")
    member = world["a"]
    world.until(lambda: "b" in member.metadata.state.nodes)
    for name in "ab":
        record = msgspec.structs.replace(member.metadata.state.nodes[name], version=PROTOCOL_VERSION)
        world.write("a", c.PutNode(record))
    sent: list[object] = []
    member._membership_changes._send = lambda peer, message, urgent: sent.append(message)
    member.receive("z", JoinRequest("z", "z:1", PROTOCOL_VERSION_OLDEST))
    assert sent == [
        JoinRefused(
            "z speaks version 2 of the cluster protocol, and every member of the cluster version 3; "
            "upgrade z first"
        )
    ]
    assert "z" not in member.metadata.state.nodes
    member.receive("z", JoinRequest("z", "z:1", PROTOCOL_VERSION))
    world.until(lambda: "z" in member.metadata.state.nodes)


def test_versions_of_commands_are_not_beyond_this_program() -> None:
    assert all(PROTOCOL_VERSION_OLDEST < version <= PROTOCOL_VERSION for version in INTRODUCED.values())


def compact(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.nodes[name].compact()
    cluster.run(100)


def complete(cluster: Cluster) -> bool:
    """Return whether all nodes have the same complete metadata."""
    states = [cluster.state(name) for name in cluster.names]
    records = [(state.nodes, {key: queue.indexes for key, queue in state.queues.items()}) for state in states]
    return all(map(knows_log_indexes, states)) and all(found == records[0] for found in records)


def test_a_node_completes_the_metadata_that_it_has_from_its_own_older_program() -> None:
    """The snapshot of the older program lacks the versions of the other nodes, which have them."""
    cluster = Cluster(3)
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    cluster.nodes["a"].member.static_shovels = ("s",)
    cluster.declare("q", at="c")
    cluster.until(lambda: cluster.state("b").nodes["a"].static_shovels)
    compact(cluster, "b")
    restart(cluster, "b", PROTOCOL_VERSION)
    cluster.until(lambda: complete(cluster))
    cluster.declare("r", at="b")
    cluster.until(lambda: cluster.state("a").links and ("/", "r") in cluster.state("a").queues)
    cluster.run(2000)
    assert complete(cluster)
    assert cluster.state("b").nodes["a"].static_shovels == ("s",)


def test_a_node_completes_the_metadata_that_it_has_from_an_older_member() -> None:
    """A restored node has the snapshot of a member that is upgraded later."""
    raft = msgspec.structs.replace(DEFAULT_LIMITS.raft, trailing_bytes=0)
    cluster = Cluster(3, limits=RunLimits(cluster=replace(DEFAULT_LIMITS, raft=raft)))
    cluster.declare("q", at="a")
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    cluster.nodes["c"].die(power=False)
    for number in range(5):
        cluster.declare(f"q{number}", at="a")
    compact(cluster, "a", "b")
    if cluster.nodes["a"].member.leading:
        cluster.nodes["a"].member.hand_over()
        cluster.until(lambda: cluster.nodes["b"].member.leading)
    cluster.nodes["c"].start()
    cluster.until(lambda: cluster.state("c").nodes["a"].version == PROTOCOL_VERSION_OLDEST)
    cluster.until(lambda: cluster.serving() == cluster.names)
    restart(cluster, "b", PROTOCOL_VERSION)
    cluster.until(lambda: complete(cluster))


def test_log_indexes_begin_on_all_nodes_at_one_entry_if_a_stopped_node_is_upgraded_last() -> None:
    cluster = Cluster(3)
    cluster.declare("q", at="a")
    restart(cluster, "c", PROTOCOL_VERSION_OLDEST)
    restart(cluster, "b", PROTOCOL_VERSION_OLDEST)
    compact(cluster, "b")
    cluster.nodes["c"].die(power=False)
    node = cluster.nodes["b"]
    node.die(power=False)
    node.version = PROTOCOL_VERSION
    node.start()
    cluster.until(lambda: cluster.serving() == ["a", "b"])
    cluster.nodes["c"].version = PROTOCOL_VERSION
    cluster.nodes["c"].start()
    cluster.until(lambda: cluster.serving() == cluster.names)
    cluster.until(lambda: complete(cluster))
