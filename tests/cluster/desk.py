"""Coordinator with the metadata of a cluster; all its decisions are applied at once."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from mirrormq.cluster.coordinator import Coordinator
from mirrormq.metadata import commands as c
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import CopyReport, Node, Policy, Queue, Vhost
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.initial_placement import locator, place
from mirrormq.wire.fields import Field

LEADER = "leader"
"""Metadata leader. It holds no queues here, so that it can outlive all nodes that do."""


class Desk:
    """Coordinator under test. Node names are single letters."""

    reporting = True
    """Whether nodes report their copies; a test may disable it."""

    def __init__(self, nodes: str, **definition: Any) -> None:
        self.choice = random.Random(7)
        self.state = MetadataState()
        self.policies = PolicyMatcher(self.state)
        self.coordinator = Coordinator(LEADER, self.state, self.policies, self.choice.randrange)
        self.coordinator.lead(True)
        self.reachable: set[str] = set()
        self.written: list[c.Command] = []
        """Commands that the coordinator has written so far."""
        self.generations: dict[str, int] = {}
        """Number of times that each node has opened its journal."""
        self.disks: dict[str, int] = {}
        """Durable position of every copy on a node; 1 by default."""
        self.write(c.PutVhost(Vhost("/")))
        for name in nodes:
            self.start(name)
        if definition:
            self.policy(**definition)

    # -- events ---------------------------------------------------------------------------------

    def write(self, command: c.Command) -> None:
        for change in self.state.apply(c.decode(c.encode(command))):
            self.coordinator.follow(change)

    def work(self, steps: int = 100) -> None:
        """Run the coordinator until it has no work left."""
        for _ in range(steps):
            if not self.coordinator.pending and not self.report_copies():
                return
            for command in self.coordinator.work():
                self.written.append(command)
                self.write(command)
        raise AssertionError("the coordinator does not come to rest")

    def report_copies(self) -> bool:
        """Report the copies of queues that are down, as brokers do. Return False if there is nothing to
        report."""
        found = []
        for queue in self.state.queues.values() if self.reporting else ():
            reported = {(copy.node, copy.incarnation) for copy in queue.copies}
            for name in queue.ring.members if queue.waits_for else ():
                node = self.state.nodes.get(name)
                if node is None or not node.running or queue.ring.incarnation_of(name) == node.incarnation:
                    continue
                if (name, node.incarnation) not in reported:
                    copy = CopyReport(name, node.incarnation, self.disks.get(name, 1), 0, 0)
                    found.append((queue.queue_id, copy))
        if found:
            self.write(c.ReportCopies(found))
        return bool(found)

    def open_journal(self, name: str, *, journal: str = "", outdated: int = 0, damaged: bool = False) -> None:
        """Report the journal of a started node; `outdated` is the number of generations it went back."""
        self.generations[name] = self.generations.get(name, 0) + 1 - outdated
        incarnation, known = self.state.nodes[name].incarnation, self.state.nodes[name].journal
        self.write(
            c.ReportJournal(name, incarnation, journal or known or "first", self.generations[name], damaged)
        )

    def start(self, name: str, **journal: Any) -> None:
        """Start a node's application, whether or not the end of its last incarnation was noticed."""
        before = self.state.nodes.get(name)
        self.reachable.add(name)
        self.coordinator.reach(frozenset(self.reachable))
        self.write(c.PutNode(Node(name, incarnation=before.incarnation + 1 if before else 1, running=True)))
        self.open_journal(name, **journal)
        self.work()

    def lose(self, *names: str) -> None:
        self.reachable.difference_update(names)
        self.coordinator.reach(frozenset(self.reachable))
        self.work()

    def stop(self, name: str) -> None:
        """Stop a node in good order, without time to move its masters."""
        node = self.state.nodes[name]
        self.write(c.PutNode(msgspec.structs.replace(node, running=False, shutdown=True)))
        self.reachable.discard(name)
        self.coordinator.reach(frozenset(self.reachable))
        self.work()

    def forget(self, name: str) -> None:
        self.write(c.DeleteNode(name))
        self.work()

    def policy(self, pattern: str = ".*", name: str = "p", priority: int = 0, **definition: Any) -> None:
        """Set a policy. Keyword arguments are the definition, with underscores for hyphens."""
        settings = {key.replace("_", "-"): value for key, value in definition.items()}
        self.write(c.PutPolicy(Policy("/", name, pattern, definition=settings, priority=priority)))
        self.work()

    def clear_policy(self, name: str = "p") -> None:
        self.write(c.DeletePolicy("/", name))
        self.work()

    def declare(self, name: str, at: str, arguments: dict[str, str] | None = None, **record: Any) -> View:
        """Declare a queue as a client of node `at`."""
        table = {key: Field("S", value.encode()) for key, value in (arguments or {}).items()}
        definition = self.policies.effective("/", name, "queues").definition
        queue = place(
            Queue("/", name, **record),
            locator(table, definition, "client-local"),
            definition,
            at,
            self.state.nodes,
            self.coordinator.replica_index.masters,
            self.choice.randrange,
        )
        self.write(c.PutQueue(queue))
        self.work()
        return self.view(name)

    def synchronise(self, name: str, *mirrors: str) -> None:
        """Report these members as synchronised, as the master; without names, all of them."""
        queue = self.queue(name)
        view = queue.ring
        in_sync = view.in_sync | (frozenset(mirrors) or frozenset(view.members))
        self.write(c.ChangeViews([c.ViewChange(queue.queue_id, view.with_sync_generation(in_sync, {}))]))
        self.work()

    def fall_behind(self, name: str, *mirrors: str) -> None:
        """Report these members as not synchronised, as the master."""
        queue = self.queue(name)
        view = queue.ring.with_sync_generation(queue.ring.in_sync - set(mirrors), {})
        self.write(c.ChangeViews([c.ViewChange(queue.queue_id, view)]))
        self.work()

    # -- queries --------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        return self.state.queues["/", name]

    def view(self, name: str) -> View:
        return self.queue(name).ring

    def ring(self, name: str) -> str:
        """Return the members: master first, synchronised ones in capitals."""
        view = self.view(name)
        return "".join(member.upper() if member in view.in_sync else member for member in view.members)
