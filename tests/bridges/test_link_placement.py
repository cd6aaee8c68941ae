"""Placement of links: one running node each, spread, fenced by epochs."""

from __future__ import annotations

import msgspec

from mirrormq.bridges.link_placement import LinkPlacement
from mirrormq.metadata import commands as c
from mirrormq.metadata.link_records import Link, LinkChange
from mirrormq.metadata.records import Node, Parameter, Policy, Queue, Vhost
from mirrormq.metadata.state import MetadataState

ROUNDS_MAX = 3
"""Rounds after which a placement has nothing left to do."""


class Leader:
    """Metadata state with the placement of its leader; applies what the placement proposes."""

    def __init__(self, *nodes: str) -> None:
        self.state = MetadataState()
        self.placement = LinkPlacement(self.state)
        self.apply(c.PutVhost(Vhost("/")))
        for name in nodes:
            self.apply(c.PutNode(Node(name, incarnation=1, running=True)))
        self.placement.lead(True, 1)
        self.work()

    def apply(self, command: c.Command) -> None:
        for change in self.state.apply(command):
            self.placement.follow(change)

    def work(self) -> None:
        for _ in range(ROUNDS_MAX):
            for command in self.placement.work() if self.placement.pending else ():
                self.apply(command)
        assert not self.placement.pending, "its own changes give it more to do"

    def shovel(self, name: str) -> None:
        self.apply(c.PutParameter(Parameter("/", "shovel", name, {})))
        self.work()

    def link(self, name: str) -> Link:
        return self.state.links["/", "shovel", name]


def test_links_are_spread_over_the_running_nodes() -> None:
    leader = Leader("a", "b", "c")
    for number in range(6):
        leader.shovel(f"s{number}")
    nodes = sorted(link.node for link in leader.state.links.values())
    assert nodes == ["a", "a", "b", "b", "c", "c"]
    assert {link.epoch for link in leader.state.links.values()} == {1}


def test_a_failed_node_loses_its_links_to_the_others_with_the_next_epoch() -> None:
    leader = Leader("a", "b")
    leader.shovel("s0")
    leader.shovel("s1")
    failed = leader.link("s0").node
    leader.apply(c.PutNode(Node(failed, incarnation=1, running=False)))
    leader.work()
    moved = leader.link("s0")
    assert moved.node != failed and moved.epoch == 2
    assert leader.link("s1").epoch == 1, "links of other nodes stay"


def test_a_new_incarnation_needs_a_new_assignment() -> None:
    leader = Leader("a")
    leader.shovel("s")
    leader.apply(c.PutNode(Node("a", incarnation=2, running=True)))
    leader.work()
    assert (leader.link("s").incarnation, leader.link("s").epoch) == (2, 2)


def test_a_node_in_maintenance_gives_its_links_away() -> None:
    leader = Leader("a", "b")
    leader.shovel("s")
    home = leader.link("s").node
    leader.apply(c.PutNode(Node(home, incarnation=1, running=True, maintenance=True)))
    leader.work()
    assert leader.link("s").node != home


def test_a_deleted_definition_drops_its_link_and_no_node_means_no_change() -> None:
    leader = Leader("a")
    leader.shovel("s")
    leader.apply(c.PutNode(Node("a", incarnation=1, running=False)))
    leader.work()
    assert leader.link("s").node == "a"
    leader.apply(c.DeleteParameter("/", "shovel", "s"))
    leader.work()
    assert not leader.state.links


def test_a_late_proposal_of_a_former_leader_is_refused() -> None:
    leader = Leader("a", "b")
    leader.shovel("s")
    home = leader.link("s")
    late = c.AssignLinks([LinkChange(Link("/", "shovel", "s", "b", 1, home.epoch))])
    leader.apply(late)
    assert leader.link("s") == home


def test_only_the_present_epoch_finishes_a_link() -> None:
    leader = Leader("a")
    leader.shovel("s")
    leader.apply(c.RestartLink("/", "shovel", "s"))
    leader.apply(c.FinishLink("/", "shovel", "s", 1))
    assert ("/", "shovel", "s") in leader.state.parameters
    leader.apply(c.FinishLink("/", "shovel", "s", 2))
    assert ("/", "shovel", "s") not in leader.state.parameters and not leader.state.links


def test_links_survive_a_snapshot() -> None:
    leader = Leader("a")
    leader.shovel("s")
    assert MetadataState.from_snapshot(leader.state.snapshot()).links == leader.state.links


def test_the_link_of_a_queue_without_a_master_keeps_its_epoch() -> None:
    leader = Leader("a", "b")
    leader.apply(c.PutParameter(Parameter("/", "federation-upstream", "u", {"uri": "amqp://"})))
    leader.apply(c.PutPolicy(Policy("/", "p", "^q$", definition={"federation-upstream": "u"})))
    queue = Queue("/", "q", queue_id=1, node="a")
    leader.apply(c.PutQueue(queue))
    leader.work()
    [link] = leader.state.links.values()
    assert (link.node, link.epoch) == ("a", 1)
    leader.apply(c.PutNode(Node("a", incarnation=1, running=False)))
    leader.apply(c.PutQueue(msgspec.structs.replace(queue, waits_for=("a",)), if_absent=False))
    leader.work()
    assert leader.state.links[link.key] == link, "b has no copy of the queue"
    leader.apply(c.PutNode(Node("a", incarnation=2, running=True)))
    leader.apply(c.PutQueue(queue, if_absent=False))
    leader.work()
    again = leader.state.links[link.key]
    assert (again.node, again.incarnation, again.epoch) == ("a", 2, 2)


def test_the_link_of_a_queue_stays_while_its_master_has_stopped_and_none_has_been_chosen() -> None:
    leader = Leader("a", "b")
    leader.apply(c.PutParameter(Parameter("/", "federation-upstream", "u", {"uri": "amqp://"})))
    leader.apply(c.PutPolicy(Policy("/", "p", "^q$", definition={"federation-upstream": "u"})))
    leader.apply(c.PutQueue(Queue("/", "q", queue_id=1, node="a")))
    leader.work()
    [link] = leader.state.links.values()
    leader.apply(c.PutNode(Node("a", incarnation=1, running=False)))
    leader.work()
    assert leader.state.links[link.key] == link


def static(leader: Leader, node: str, *names: str, running: bool = True, incarnation: int = 1) -> None:
    """Let a node state its static shovels."""
    leader.apply(c.PutNode(Node(node, incarnation=incarnation, running=running, static_shovels=names)))
    leader.work()


def test_a_static_shovel_runs_on_one_of_the_nodes_that_have_it() -> None:
    leader = Leader("a", "b", "c")
    for node in "bc":
        static(leader, node, "s")
    assert leader.state.links.keys() == {("", "static-shovel", "s")}
    link = leader.state.links["", "static-shovel", "s"]
    assert (link.node, link.epoch) == ("b", 1)
    static(leader, "b", "s", running=False)
    assert leader.state.links[link.key].node == "c" and leader.state.links[link.key].epoch == 2
    static(leader, "b", "s", incarnation=2)
    assert leader.state.links[link.key].node == "c", "a returning node does not take it back"
    leader.apply(c.DeleteVhost("/"))
    leader.work()
    assert link.key in leader.state.links, "it belongs to no vhost"


def test_a_static_shovel_leaves_a_node_that_lost_its_definition() -> None:
    leader = Leader("a", "b")
    static(leader, "a", "s")
    static(leader, "b", "s")
    static(leader, "a", incarnation=2)
    assert leader.state.links["", "static-shovel", "s"].node == "b"
    static(leader, "b", incarnation=2)
    assert not leader.state.links


def test_a_static_shovel_waits_for_a_node_that_has_it() -> None:
    leader = Leader("a", "b")
    static(leader, "a", "s")
    static(leader, "a", "s", running=False)
    assert leader.state.links["", "static-shovel", "s"].node == "a", "b cannot run it"
    static(leader, "a", "s", incarnation=2)
    assert leader.state.links["", "static-shovel", "s"].epoch == 2


def test_a_static_shovel_leaves_a_node_in_maintenance_only_for_one_that_has_it() -> None:
    leader = Leader("a", "b")
    static(leader, "a", "s")
    leader.apply(c.PutNode(Node("a", incarnation=1, running=True, maintenance=True, static_shovels=("s",))))
    leader.work()
    assert leader.state.links["", "static-shovel", "s"].node == "a"
    static(leader, "b", "s")
    assert leader.state.links["", "static-shovel", "s"].node == "b"
