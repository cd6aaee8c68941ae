"""A coordinator at its desk: the metadata of a cluster, and everything it decides carried out at once."""

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
"""The metadata's leader; it holds no queues here, so it can outlive all nodes that do."""


class Desk:
    """Nodes are single letters."""

    reporting = True
    """Whether nodes report their copies; a test may hold that back."""

    def __init__(self, nodes: str, **definition: Any) -> None:
        self.choice = random.Random(7)
        self.state = MetadataState()
        self.policies = PolicyMatcher(self.state)
        self.coordinator = Coordinator(LEADER, self.state, self.policies, self.choice.randrange)
        self.coordinator.lead(True)
        self.reachable: set[str] = set()
        self.written: list[c.Command] = []
        """What the coordinator has written so far."""
        self.generations: dict[str, int] = {}
        """How often each node has opened its journal."""
        self.disks: dict[str, int] = {}
        """Durable position of every copy on a node; 1 where nothing else is said."""
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
        """Let the coordinator come to rest."""
        for _ in range(steps):
            if not self.coordinator.pending and not self.report_copies():
                return
            for command in self.coordinator.work():
                self.written.append(command)
                self.write(command)
        raise AssertionError("the coordinator does not come to rest")

    def report_copies(self) -> bool:
        """Report the copies of queues that are down, as brokers do; False if there is nothing to report."""
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
        """A node that has started reports its journal; `outdated`: by how many generations it went back."""
        self.generations[name] = self.generations.get(name, 0) + 1 - outdated
        incarnation, known = self.state.nodes[name].incarnation, self.state.nodes[name].journal
        self.write(
            c.ReportJournal(name, incarnation, journal or known or "first", self.generations[name], damaged)
        )

    def start(self, name: str, **journal: Any) -> None:
        """A node's application starts, whether or not its former life was missed."""
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
        """In good order, but with no time to hand its masters over."""
        node = self.state.nodes[name]
        self.write(c.PutNode(msgspec.structs.replace(node, running=False, shutdown=True)))
        self.reachable.discard(name)
        self.coordinator.reach(frozenset(self.reachable))
        self.work()

    def forget(self, name: str) -> None:
        self.write(c.DeleteNode(name))
        self.work()

    def policy(self, pattern: str = ".*", name: str = "p", priority: int = 0, **definition: Any) -> None:
        """Keyword arguments are the definition, with underscores for hyphens."""
        settings = {key.replace("_", "-"): value for key, value in definition.items()}
        self.write(c.PutPolicy(Policy("/", name, pattern, definition=settings, priority=priority)))
        self.work()

    def clear_policy(self, name: str = "p") -> None:
        self.write(c.DeletePolicy("/", name))
        self.work()

    def declare(self, name: str, at: str, arguments: dict[str, str] | None = None, **record: Any) -> View:
        """A client of node `at` declares a queue."""
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
        """The master says that these have everything; none: all have."""
        queue = self.queue(name)
        view = queue.ring
        in_sync = view.in_sync | (frozenset(mirrors) or frozenset(view.members))
        self.write(c.ChangeViews([c.ViewChange(queue.queue_id, view.with_sync_generation(in_sync, {}))]))
        self.work()

    def fall_behind(self, name: str, *mirrors: str) -> None:
        """The master says that these lack something."""
        queue = self.queue(name)
        view = queue.ring.with_sync_generation(queue.ring.in_sync - set(mirrors), {})
        self.write(c.ChangeViews([c.ViewChange(queue.queue_id, view)]))
        self.work()

    # -- what there is --------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        return self.state.queues["/", name]

    def view(self, name: str) -> View:
        return self.queue(name).ring

    def ring(self, name: str) -> str:
        """The members, master first; those in capitals are synchronised."""
        view = self.view(name)
        return "".join(member.upper() if member in view.in_sync else member for member in view.members)
