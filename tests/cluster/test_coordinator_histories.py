"""Random histories of nodes, policies and queues: every view is legal, and the final state is right.

Commands are applied late and in parts, as in a replicated log. The coordinator's decisions wait in line
with all other commands, and commands of masters and operators may overtake them.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from mirrormq.cluster.coordinator import Coordinator, present, statuses
from mirrormq.cluster.master_moves import CannotMove, drain, move, rebalance, recover, revive
from mirrormq.cluster.stored_copies import former_copies, stored_copies
from mirrormq.metadata import commands as c
from mirrormq.metadata.changes import Change, Put
from mirrormq.metadata.copy_records import CopyReport
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Node, Policy, Queue, Vhost
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.initial_placement import place
from mirrormq.replication.placement import mirroring, wanted
from mirrormq.replication.promotion import MemberStatus, rules

NODES = "abcd"
DEFINITIONS: list[dict[str, Any]] = [
    {"ha-mode": "all"},
    {"ha-mode": "exactly", "ha-params": 2},
    {"ha-mode": "exactly", "ha-params": 3, "ha-promote-on-failure": "when-synced"},
    {"ha-mode": "nodes", "ha-params": ["b", "c"]},
    {"ha-mode": "nodes", "ha-params": ["d", "x"], "ha-promote-on-shutdown": "always"},
    {"ha-mode": "all", "ha-promote-on-failure": "when-synced"},
    {"max-length": 3},
]


class History:
    """Cluster whose log is applied one entry at a time."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.state = MetadataState()
        self.policies = PolicyMatcher(self.state)
        self.coordinator = Coordinator("leader", self.state, self.policies, self.choice.randrange)
        self.coordinator.lead(True)
        self.line: list[c.Command] = [c.PutVhost(Vhost("/"))]
        self.linked: set[str] = set()
        self.declared = 0
        self.compared = 0
        """Number of promotions after a comparison of copies."""
        self.recalled = 0
        """Number of former members that were promoted."""
        self.holed = 0
        """Number of promotions of a member with holes."""

    # -- log ------------------------------------------------------------------------------------

    def apply_one(self) -> None:
        if self.line:
            command = self.line.pop(0)
            for change in self.state.apply(c.decode(c.encode(command))):
                self.check(change)
                self.coordinator.follow(change)
                self.report(change)

    def report(self, change: Change) -> None:
        """Report members' copies as brokers do: of a queue that is down, and when they start."""
        record = change.record
        if not isinstance(change, Put):
            return
        if isinstance(record, Queue):
            self.report_copies(record, tuple(filter(record.has_copy, NODES)))
        elif isinstance(record, Node) and record.running and record.generation < record.incarnation:
            damaged = self.choice.random() < 0.2
            journal = "other" if self.choice.random() < 0.1 else "own"
            self.line.append(
                c.ReportJournal(record.name, record.incarnation, journal, record.incarnation, damaged)
            )
            for queue in self.state.queues.values():
                self.report_copies(queue, (record.name,))

    def report_copies(self, queue: Queue, members: tuple[str, ...]) -> None:
        if not queue.waits_for:
            return
        found = statuses(queue.ring, present(self.state.nodes))
        for name in members:
            node = self.state.nodes.get(name)
            incarnation = node.incarnation if node is not None else 0
            former = node is not None and node.running and queue.has_copy(name)
            returned = former or found.get(name) is MemberStatus.RETURNED
            reported = any((copy.node, copy.incarnation) == (name, incarnation) for copy in queue.copies)
            under_way = any(
                (queue_id, copy.node, copy.incarnation) == (queue.queue_id, name, incarnation)
                for command in self.line
                if isinstance(command, c.ReportCopies)
                for queue_id, copy in command.copies
            )
            if returned and not reported and not under_way:
                copy = CopyReport(name, incarnation, self.choice.randrange(3), self.choice.randrange(3), 0)
                self.line.append(c.ReportCopies([(queue.queue_id, copy)]))

    def check(self, change: Change) -> None:
        """Check that a change is legal."""
        if not isinstance(change, Put) or not isinstance(change.record, Queue):
            return
        queue, before = change.record, change.before
        view = queue.ring
        assert view.in_sync <= set(view.members) and len(set(view.members)) == len(view.members)
        assert view.master in view.in_sync and queue.node == view.master
        assert {name for name, _ in view.incarnations} <= set(view.members)
        if not isinstance(before, Queue):
            return
        old = before.ring
        self.check_former(queue, before)
        if (queue.copies, queue.former) != (before.copies, before.former) and view == old:
            return
        assert view.version == old.version + 1
        again = view.master != old.master or view.incarnation_of(view.master) != old.incarnation_of(
            old.master
        )
        assert view.epoch == old.epoch + again
        if queue.waits_for and before.waits_for:
            assert (queue.waits_for, view.members) != (before.waits_for, old.members), "said twice"

    def check_former(self, queue: Queue, before: Queue) -> None:
        """Check that a node keeps its copy exactly if it left the in-sync set without being dismissed."""
        view, old = queue.ring, before.ring
        names = [former.node for former in queue.former]
        assert len(set(names)) == len(names) and not view.in_sync & set(names)
        for name in old.in_sync - view.in_sync if queue.survives_restart else ():
            node = self.state.nodes.get(name)
            alive = node is not None and node.running and node.incarnation == old.incarnation_of(name)
            if node is not None and (not alive or name in view.members):
                assert name in names
            elif name not in {former.node for former in before.former}:
                assert name not in names

    # -- events ---------------------------------------------------------------------------------

    def step(self) -> None:
        actions = [
            (40, self.apply_one), (25, self.coordinate), (8, self.start), (6, self.die), (3, self.stop),
            (1, self.forget), (4, self.policy), (8, self.declare), (8, self.synchronise), (2, self.drain),
            (2, self.operate), (2, self.delete), (1, self.change_leader),
        ]  # fmt: skip
        weights = [weight for weight, _ in actions]
        self.choice.choices([action for _, action in actions], weights)[0]()

    def coordinate(self) -> None:
        decided = self.coordinator.work(self.choice.randint(1, 50))
        for command in decided:
            if isinstance(command, c.ChangeViews):
                for change in command.changes:
                    self.check_decision(change)
        self.line += decided

    def check_decision(self, change: c.ViewChange) -> None:
        """Check that a member with holes becomes master only if the policy accepts it, or if all members
        without holes were removed from the cluster."""
        queue = self.state.queues[self.state.queue_keys[change.queue_id]]
        before, master = queue.ring, change.view.master
        if change.waits_for:
            return
        found = statuses(before, present(self.state.nodes, self.coordinator._missed))
        if master not in found:
            self.check_recalled(queue, master)
            return
        if (
            found[before.master] is not MemberStatus.ALIVE
            and found[master] is MemberStatus.RETURNED
            and len(found) > 1
        ):
            self.check_comparison(queue, master)
        self.holed += master not in before.in_sync
        if master in before.in_sync or found[master] is MemberStatus.RETURNED:
            return
        assert change.view.in_sync == {master}
        policy = rules(self.policies.effective("/", queue.name, "queues").definition)
        untrusted = not any(copy.trust.suffices for copy in stored_copies(queue, self.state.nodes).values())
        assert policy.on_failure_always or not before.in_sync & self.state.nodes.keys() or untrusted

    def check_comparison(self, queue: Queue, master: str) -> None:
        """Check that every synchronised member has reported, and no trusted copy is ahead of the chosen
        one."""
        hopes = queue.ring.in_sync & self.state.nodes.keys() or set(queue.ring.members)
        copies = stored_copies(queue, self.state.nodes)
        assert hopes & self.state.nodes.keys() <= copies.keys()
        complete = [copies[name] for name in hopes if name in copies and copies[name].trust.suffices]
        assert not complete or copies[master] == max(complete)
        self.compared += 1

    def check_recalled(self, queue: Queue, master: str) -> None:
        """A former member is promoted only if every member that was in sync has reported an untrusted copy,
        and no former member with a trusted copy left later."""
        copies, former = stored_copies(queue, self.state.nodes), former_copies(queue, self.state.nodes)
        assert queue.ring.in_sync & self.state.nodes.keys() <= copies.keys()
        assert not any(copies[name].trust.suffices for name in queue.ring.in_sync if name in copies)
        chosen = former[master]
        assert chosen.copy is not None and chosen.copy.trust.suffices
        assert all(other.copy is not None for other in former.values() if other.version > chosen.version)
        assert not any(
            other.copy is not None and other.copy.trust.suffices and other.version > chosen.version
            for other in former.values()
        )
        self.recalled += 1

    def reach(self) -> None:
        self.coordinator.reach(frozenset(self.linked))

    def start(self) -> None:
        name = self.choice.choice(NODES)
        node = self.state.nodes.get(name)
        if any(isinstance(command, c.PutNode) and command.record.name == name for command in self.line):
            return
        self.linked.add(name)
        self.reach()
        self.line.append(c.DropTransient(name))
        self.line.append(c.PutNode(Node(name, incarnation=node.incarnation + 1 if node else 1, running=True)))

    def die(self) -> None:
        self.linked.discard(self.choice.choice(NODES))
        self.reach()

    def stop(self) -> None:
        node = self.state.nodes.get(self.choice.choice(NODES))
        if node is not None and node.running:
            self.line.append(c.PutNode(msgspec.structs.replace(node, running=False, shutdown=True)))

    def forget(self) -> None:
        gone = [name for name, node in self.state.nodes.items() if not node.running]
        if gone and len(self.state.nodes) > 2:
            self.line.append(c.DeleteNode(self.choice.choice(gone)))

    def policy(self) -> None:
        if self.choice.random() < 0.3:
            self.line.append(c.DeletePolicy("/", self.choice.choice("pq")))
            return
        definition = self.choice.choice(DEFINITIONS)
        name, pattern = self.choice.choice([("p", ".*"), ("q", "^q.*[02468]$")])
        self.line.append(c.PutPolicy(Policy("/", name, pattern, definition=definition)))

    def declare(self) -> None:
        running = [name for name, node in self.state.nodes.items() if node.running]
        if running and len(self.state.queues) < 12:
            self.declared += 1
            name = f"q{self.declared}"
            durable = self.choice.random() < 0.7
            record = Queue("/", name, durable=durable, exclusive=not durable and self.choice.random() < 0.5)
            definition = self.policies.effective("/", name, "queues").definition
            at, masters = self.choice.choice(running), self.coordinator.replica_index.masters
            placed = place(
                record, "min-masters", definition, at, self.state.nodes, masters, self.choice.randrange
            )
            self.line.append(c.PutQueue(placed))

    def synchronise(self) -> None:
        for queue in list(self.state.queues.values()):
            if self.choice.random() < 0.5 and not queue.waits_for:
                view = queue.ring
                mirrors = [name for name in view.members[1:] if self.choice.random() < 0.6]
                after = view.with_sync_generation(frozenset({view.master, *mirrors}), {})
                self.line.append(c.ChangeViews([c.ViewChange(queue.queue_id, after)]))

    def drain(self) -> None:
        node = self.state.nodes.get(self.choice.choice(NODES))
        if node is not None and node.running:
            self.line.append(revive(node) if node.maintenance else drain(node))

    def operate(self) -> None:
        if not self.state.queues:
            return
        queue = self.choice.choice(list(self.state.queues.values()))
        node = self.choice.choice(NODES)
        try:
            match self.choice.randrange(3):
                case 0:
                    self.line.append(move(self.state, queue, node))
                case 1:
                    self.line.append(recover(self.state, queue, node))
                case _:
                    self.line += rebalance(self.state, lambda queue: True)
        except CannotMove:
            pass

    def delete(self) -> None:
        if self.state.queues:
            queue = self.choice.choice(list(self.state.queues.values()))
            self.line.append(c.DeleteQueue("/", queue.name, queue.queue_id))

    def change_leader(self) -> None:
        self.coordinator.lead(False)
        self.coordinator.lead(True)

    # -- final state ----------------------------------------------------------------------------

    def rest(self) -> None:
        """Apply pending work without new events."""
        for _ in range(400):
            while self.line:
                self.apply_one()
            if not self.coordinator.pending:
                return
            self.coordinate()
        raise AssertionError("it does not come to rest")

    def start_all(self) -> None:
        """Start every node, one after the other."""
        for name in NODES:
            while True:
                node = self.state.nodes.get(name)
                if node is not None and node.running and not node.maintenance and name in self.linked:
                    break
                self.linked.add(name)
                self.reach()
                self.line.append(
                    c.PutNode(Node(name, incarnation=node.incarnation + 1 if node else 1, running=True))
                )
                self.rest()

    def check_rest(self) -> None:
        """Check that every queue is where it should be, or that no node can hold it."""
        now = present(self.state.nodes)
        for queue in self.state.queues.values():
            view = queue.ring
            found = statuses(view, now)
            if found[view.master] is not MemberStatus.ALIVE:
                assert queue.waits_for and queue.survives_restart
                assert not any(name in now.running for name in queue.waits_for)
                continue
            assert not queue.waits_for
            assert all(status is MemberStatus.ALIVE for status in found.values())
            definition = self.policies.effective("/", queue.name, "queues").definition
            policy = None if queue.exclusive else mirroring(definition)
            master, mirrors = wanted(policy, view, now.running, lambda count: 0, now.resting)
            assert {master, *mirrors} == set(view.members) and master == view.master
            successors = (set(mirrors) & view.in_sync) - now.resting
            assert not (view.master in now.resting and successors), "a draining node kept a master"


@pytest.mark.parametrize("seed", range(60))
def test_random_histories(seed: int) -> None:
    history = History(seed)
    for _ in range(400):
        history.step()
    history.rest()
    history.check_rest()
    replica_index = history.coordinator.replica_index
    assert replica_index.masters.total() == len(history.state.queues)
    history.start_all()
    history.check_rest()
    assert not any(queue.waits_for for queue in history.state.queues.values()), "everybody is back"


def test_the_histories_do_what_they_are_for() -> None:
    """The histories promote members with holes, let queues wait, and change masters."""
    holed = waiting = compared = recalled = 0
    for seed in range(60):
        history = History(seed)
        for _ in range(400):
            history.step()
            waiting += any(queue.waits_for for queue in history.state.queues.values())
        history.rest()
        history.start_all()
        holed += history.holed
        compared += history.compared
        recalled += history.recalled
    assert holed > 5 and waiting > 200 and compared > 50 and recalled > 5
