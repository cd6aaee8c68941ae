"""A coordinator at its desk: the metadata of a cluster, and everything it decides carried out at once."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from mirrormq.cluster.coordinator import Coordinator
from mirrormq.metadata import commands as c
from mirrormq.metadata.policies import Policies
from mirrormq.metadata.records import Node, Policy, Queue, Vhost
from mirrormq.metadata.state import State
from mirrormq.metadata.view import View
from mirrormq.replication.birth import locator, place
from mirrormq.wire.fields import Field

LEADER = "leader"
"""The metadata's leader; it holds no queues here, so it can outlive all nodes that do."""


class Desk:
    """Nodes are single letters."""

    def __init__(self, nodes: str, **definition: Any) -> None:
        self.choice = random.Random(7)
        self.state = State()
        self.policies = Policies(self.state)
        self.coordinator = Coordinator(LEADER, self.state, self.policies, self.choice.randrange)
        self.coordinator.lead(True)
        self.reachable: set[str] = set()
        self.written: list[c.Command] = []
        """What the coordinator has written so far."""
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
            if not self.coordinator.pending:
                return
            for command in self.coordinator.work():
                self.written.append(command)
                self.write(command)
        raise AssertionError("the coordinator does not come to rest")

    def start(self, name: str) -> None:
        """A node's application starts, whether or not its former life was missed."""
        before = self.state.nodes.get(name)
        self.reachable.add(name)
        self.coordinator.reach(frozenset(self.reachable))
        self.write(c.PutNode(Node(name, life=before.life + 1 if before else 1, running=True)))
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
            self.coordinator.census.masters,
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
        self.write(c.ChangeViews([c.ViewChange(queue.queue_id, view.with_standing(in_sync, {}))]))
        self.work()

    def fall_behind(self, name: str, *mirrors: str) -> None:
        """The master says that these lack something."""
        queue = self.queue(name)
        view = queue.ring.with_standing(queue.ring.in_sync - set(mirrors), {})
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
