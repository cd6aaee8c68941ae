"""Members agree on metadata: writes on any node, lost leaders, nodes that join, leave, crash and return."""

from __future__ import annotations

from functools import partial

import pytest

from mirrormq.cluster.cluster_limits import ClusterLimits
from mirrormq.cluster.member import STARTUP_TICKS, TICK_MS, Member
from mirrormq.cluster.member_events import Forgotten, ForkFound, LeaderChanged, MembersChanged, Refused
from mirrormq.cluster.partitions import PAUSE_IF_ALL_DOWN, PartitionHandling
from mirrormq.consensus import Majority, Reachable
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from tests.cluster.members import World, cluster, declare


def others(world: World, name: str) -> list[str]:
    return [other for other in world.alive() if other != name]


def queues(world: World, name: str) -> set[str]:
    return {queue.name for queue in world[name].metadata.state.queues.values()}


def test_nodes_join_one_after_another_and_vote() -> None:
    world = cluster(3)
    for name in "abc":
        assert world[name].consensus.members.voters == ("a", "b", "c")
        assert world[name].joined
        assert set(world[name].metadata.state.nodes) == {"a", "b", "c"}
        assert world[name].metadata.state.nodes["b"].address == "b:25672"
        assert "guest" in world[name].metadata.state.users
    assert len({world[name].cluster_id for name in "abc"}) == 1
    assert world["a"].cluster_id


def test_committed_changes_are_applied_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(3)
    work, applied = Member.work, list[int]()

    def work_in_slices(self: Member) -> bool:
        before = self.metadata.state.version
        changed = work(self, sliced=True)
        applied.append(self.metadata.state.version - before)
        return changed

    monkeypatch.setattr(Member, "work", work_in_slices)
    for number in range(300):
        world["a"].metadata.write(declare(f"q{number}"))
    world.until(lambda: all(len(queues(world, name)) == 300 for name in "abc"))
    assert 10 < max(applied) < 100


def test_a_write_takes_two_round_trips_at_most() -> None:
    world = cluster(3, delay_ms=5)
    leader = world.leader()
    follower = others(world, leader)[0]
    assert world.write(leader, declare("one")) <= 11
    assert world.write(follower, declare("two")) <= 21
    world.until(world.settled)


def test_declarations_on_two_nodes_at_once_have_one_outcome() -> None:
    world = cluster(3)
    reported: dict[str, list[str]] = {name: [] for name in "abc"}
    for name in "abc":
        world[name].metadata.observers.append(
            partial(lambda name, written: reported[name].append(f"{written.actor} {written.here}"), name)
        )
    done: list[str] = []
    for name, durable in (("b", True), ("c", False)):
        with world[name].metadata.acting_as(f"user of {name}"):
            world[name].metadata.write(declare("q", durable=durable, node=name), partial(done.append, name))
    world.until(lambda: len(done) == 2)
    world.until(world.settled)
    records = {world[name].metadata.state.queues["/", "q"] for name in "abc"}
    assert len(records) == 1
    assert next(iter(records)).node == done[0], "the first one in the log wins"
    for name in "abc":
        assert sorted(reported[name]) == sorted(f"user of {other} {other == name}" for other in "bc")


def test_each_nodes_writes_are_applied_in_its_order_everywhere() -> None:
    world = cluster(3, seed=3)
    seen: list[str] = []
    world["a"].metadata.listeners.append(lambda change: seen.append(getattr(change.record, "name", "")))
    for number in range(2000):
        world["b"].metadata.write(declare(f"b{number}"))
        world["c"].metadata.write(declare(f"c{number}"))
    world.run(3)
    for leader in (world.leader(), None):
        if leader is not None:
            world.cut([name for name in "abc" if name != leader], [leader])
            world.run(40)
            world.heal()
    world.until(world.settled)
    for name in "bc":
        assert [found for found in seen if found.startswith(name)] == [f"{name}{n}" for n in range(2000)]
    assert sorted(world["a"].metadata.state.queue_keys) == list(range(1, 4001))


def test_all_writes_of_a_turn_share_one_sync() -> None:
    world = cluster(3)
    leader = world.leader()
    world.run(50)
    before = world.nodes[leader].disk.steps
    done: list[int] = []
    for number in range(100):
        world[leader].metadata.write(declare(f"q{number}"), partial(done.append, number))
    world.until(lambda: len(done) == 100)
    assert world.nodes[leader].disk.steps - before <= 4, "a write and a sync, once or twice"


def test_grouped_writes_of_a_single_node_share_one_sync() -> None:
    world = cluster(1)
    (name,) = world.nodes
    world.run(50)
    disk, metadata = world.nodes[name].disk, world[name].metadata
    before = disk.steps
    done: list[int] = []
    for number in range(100):
        metadata.write(declare(f"q{number}"), partial(done.append, number), grouped=True)
    assert not done, "nothing is answered before it is on disk"
    world.until(lambda: len(done) == 100)
    assert disk.steps - before <= 4, "a write and a sync, once or twice"
    assert sorted(metadata.state.queue_keys) == list(range(1, 101))
    metadata.write(declare("alone"), partial(done.append, 100))
    assert done[-1] == 100, "a write that is not grouped is applied at once"


@pytest.mark.parametrize("seed", range(20))
def test_when_the_leader_dies_another_one_writes_within_tens_of_milliseconds(seed: int) -> None:
    world = cluster(3, seed=seed)
    world.run(seed * 7)
    leader = world.leader()
    world.crash(leader)
    survivor = others(world, leader)[seed % 2]
    assert world.write(survivor, declare("after")) <= 20
    world.restart(leader)
    world.until(world.settled)
    assert world[leader].metadata.state.queues.keys() == world[survivor].metadata.state.queues.keys()


@pytest.mark.parametrize("seed", range(10))
def test_a_frozen_leader_is_replaced_as_soon_as_the_detectors_give_it_up(seed: int) -> None:
    world = cluster(5, seed=seed)
    leader = world.leader()
    world.freeze(leader)
    survivor = others(world, leader)[seed % 4]
    world.run(500)
    assert world[survivor].leader == leader, "not before"
    world.suspect(leader)
    assert world.write(survivor, declare("after")) <= 20
    world.nodes[leader].frozen = False
    world[leader].down(survivor)
    for other in others(world, leader):
        world[leader].down(other)
    assert not world[leader].leading, "it knows at once that it decides nothing any more"
    world.link()
    world.until(world.settled)


def test_acknowledged_writes_survive_any_crash_of_a_minority_and_of_all() -> None:
    world = cluster(3, seed=5)
    kept = set()
    for turn in range(12):
        name = "abc"[turn % 3]
        world.write(name, declare(f"q{turn}"))
        kept.add(f"q{turn}")
        victim = "abc"[world.random.randrange(3)]
        world.crash(victim)
        survivor = others(world, victim)[0]
        world.write(survivor, declare(f"without {turn}"))
        kept.add(f"without {turn}")
        world.restart(victim)
        world.until(world.settled)
    for name in "abc":
        world.crash(name)
    for name in "abc":
        world.restart(name)
    world.leader()
    world.until(world.settled)
    for name in "abc":
        assert kept <= queues(world, name)


def test_a_minority_decides_nothing_and_says_so() -> None:
    world = cluster(3, rule=Majority)
    leader = world.leader()
    majority = others(world, leader)
    world.cut(majority, [leader])
    assert world[leader].leader is None
    assert world.nodes[leader].events == world.nodes[leader].events
    world[leader].metadata.write(declare("minority"))
    world.write(majority[0], declare("majority"))
    world.run(10_000)
    assert queues(world, leader) == set()
    assert LeaderChanged(None, world[leader].consensus.term) in world.nodes[leader].events
    world.heal()
    world.until(world.settled)
    assert queues(world, leader) == {"minority", "majority"}, "what waited is written after all"


def test_a_node_that_was_away_for_long_is_led_to_the_present_by_a_snapshot() -> None:
    world = cluster(3, limits=ClusterLimits(log_bytes_max=2000))
    world.write("a", declare("old"))
    world.until(world.settled)
    away = others(world, world.leader())[0]
    world.cut(others(world, away), [away])
    heard: list[str] = []
    world[away].metadata.listeners.append(
        lambda change: heard.append(f"{type(change).__name__} {getattr(change.record, 'name', '')}")
    )
    survivor = others(world, away)[0]
    world[away].metadata.write(declare("waiting"))
    world.write(survivor, c.DeleteQueue("/", "old"))
    for number in range(3000):
        world[survivor].metadata.write(declare(f"q{number}", arguments=bytes(500)))
    world.until(lambda: not world[survivor].metadata.unsettled)
    assert world[survivor].consensus.state.log.offset > world[away].consensus.state.log.last
    world.heal()
    world.until(world.settled)
    assert heard[:2] == ["Deleted old", "Put q0"]
    assert len(queues(world, away)) == 3001
    assert "waiting" in queues(world, away)


def test_a_node_is_forgotten_and_may_join_again_as_a_new_one() -> None:
    world = cluster(3)
    world.end("c")
    world["a"].forget("c")
    world.until(lambda: world["a"].consensus.members.voters == ("a", "b"))
    world.until(world.settled)
    assert "c" not in world["b"].metadata.state.nodes
    incarnation = 5
    world.join("c")
    world.until(lambda: "c" in world["a"].consensus.members.voters)
    assert world["a"].metadata.state.nodes["c"].incarnation > incarnation, "no life of before is lived again"


def test_a_node_that_was_forgotten_while_it_was_away_learns_of_it() -> None:
    world = cluster(3)
    world.end("c")
    world["a"].forget("c")
    world.until(lambda: world["a"].consensus.members.voters == ("a", "b"))
    world.restart("c")
    world.until(lambda: any(isinstance(event, Forgotten) for event in world.nodes["c"].events))
    assert world["c"].leader is None
    world.run(10_000)
    assert world["a"].consensus.members.voters == ("a", "b")
    assert "c" not in world["a"].metadata.state.nodes


def test_the_leader_can_be_forgotten_too() -> None:
    world = cluster(3)
    leader = world.leader()
    rest = others(world, leader)
    world[rest[0]].forget(leader)
    world.until(lambda: all(leader not in world[name].consensus.members.everyone for name in rest))
    world.end(leader)
    world.write(rest[0], declare("without"))


def test_a_member_that_lost_its_data_is_not_let_in_twice() -> None:
    world = cluster(3)
    world.end("c")
    del world.nodes["c"]
    world.join("c")
    world.until(lambda: world.nodes["c"].events)
    [reason] = {event.reason for event in world.nodes["c"].events if isinstance(event, Refused)}
    assert "c is a member already" in reason
    assert "forget_cluster_node" in reason
    assert not world["c"].joined


def test_a_node_may_join_while_the_leader_dies() -> None:
    world = cluster(3)
    leader = world.leader()
    world.join("d")
    world.run(2)
    world.crash(leader)
    survivor = next(name for name in "abc" if name != leader)
    world.until(lambda: "d" in world[survivor].consensus.members.voters)
    assert ("d", "d:25672") in {(n.name, n.address) for n in world["d"].metadata.state.nodes.values()}


def test_leadership_is_handed_over_before_a_node_stops() -> None:
    world = cluster(3)
    leader = world.leader()
    world[leader].hand_over()
    world.until(lambda: not world[leader].leading, 50)
    world.until(lambda: world.leader_now("a", "b", "c"), 50)


def test_of_two_nodes_one_goes_on_and_the_other_waits_for_it() -> None:
    world = cluster(2)
    world.crash("a")
    assert world.write("b", declare("alone")) <= 5
    world.write("b", c.PutNode(r.Node("a", "a:25672", incarnation=1, running=False)))
    world.crash("b")
    world.restart("a")
    world.run(20_000)
    assert world["a"].leader is None
    assert world["a"].awaited == ["b"], "b ran when a last heard of it, and may know more"
    world.restart("b")
    world.leader()
    world.until(world.settled)
    assert queues(world, "a") == {"alone"}
    assert not any(isinstance(event, ForkFound) for name in "ab" for event in world.nodes[name].events)


def test_the_last_of_two_to_run_starts_without_the_other() -> None:
    world = cluster(2)
    world.crash("a")
    world.write("b", c.PutNode(r.Node("a", "a:25672", incarnation=1, running=False)))
    world.crash("b")
    world.restart("b")
    waited_ms = world.until(lambda: world["b"].leading)
    assert waited_ms <= STARTUP_TICKS * TICK_MS, "it waits only for a peer that may know more of its disk"


def test_the_operator_can_force_a_node_that_waits() -> None:
    world = cluster(2)
    world.crash("b")
    world.crash("a")
    world.restart("a")
    world.run(5000)
    assert world["a"].leader is None
    world["a"].force()
    assert world.until(lambda: world["a"].leading) < 100


def test_two_that_went_on_apart_find_out_and_exchange_nothing() -> None:
    world = cluster(2, rule=Reachable)
    world.cut("a", "b")
    world.write("a", declare("of a"))
    world.write("b", declare("of b"))
    world.heal()
    world.run(3000)
    for name, peer in ("ab", "ba"):
        forks = [event.fork for event in world.nodes[name].events if isinstance(event, ForkFound)]
        assert {fork.peer for fork in forks} == {peer}
        assert queues(world, name) == {f"of {name}"}
    winner, loser = world["a"], world["b"]
    loser.consensus.reset_to(winner.consensus.export(winner.metadata.state.snapshot()))
    loser.work()
    world.until(world.settled)
    assert queues(world, "b") == {"of a"}


def test_a_loser_that_crashes_remembers_its_incarnation_on_the_losing_side() -> None:
    world = cluster(2, rule=Reachable)
    world.cut("a", "b")
    world.write("a", declare("of a"))
    world.write("b", c.PutNode(r.Node("b", "b:25672", incarnation=1000)))
    world.heal()
    world.run(3000)
    winner, loser = world["a"], world["b"]
    loser.reset_to(winner.consensus.export(winner.metadata.state.snapshot()))
    loser.work()
    world.crash("b")
    world.restart("b")
    world.until(world.settled)
    assert world["b"].metadata.state.nodes["b"].incarnation < 1000, "the winner does not know it"
    assert world["b"].consensus.state.discarded_incarnation == 1000


def test_nodes_pause_that_see_none_of_those_listed() -> None:
    world = cluster(3, rule=PartitionHandling(PAUSE_IF_ALL_DOWN, frozenset("a")).quorum)
    world.cut("a", "bc")
    world.write("a", declare("with a"))
    world.run(5000)
    assert world["b"].leader is None
    assert world["c"].leader is None
    world.heal()
    world.until(world.settled)
    assert queues(world, "b") == {"with a"}


def test_members_are_reported() -> None:
    world = cluster(2)
    changes = [event.members for event in world.nodes["a"].events if isinstance(event, MembersChanged)]
    assert [(members.voters, members.learners) for members in changes] == [
        (("a",), ("b",)),
        (("a", "b"), ()),
    ]
