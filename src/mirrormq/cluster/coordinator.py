"""Coordinator of the metadata leader: turns changes of nodes and policies into new views.

It runs on every node and acts only on the metadata leader. It has no state that is not in the metadata, so a
new leader continues the work of the last one, and the versions of views resolve decisions of two leaders.

    an incarnation ends or begins, a policy, queue, binding or ring changes → queues become *dirty*
    `work` visits dirty queues, a bounded number at a time                  → commands, few and large

For each queue the coordinator first handles lost and returned members (`promotion.settle`). Only when all
members are alive it decides the place of the replicas (`placement`). Each step is one view; adopting it
makes the queue dirty again, until no step is left.

After a full stop the members of a ring compare their copies before one is promoted (`promotion`). The
coordinator knows since when a comparison lacks a member, and ends the wait where the policy allows it.

The metadata may call a node running that has stopped since: after a full stop it calls all of them so. If
rings followed it, each returning member would leave the in-sync set in favour of members that are not there,
until the last one is left, whatever its disk holds. So no ring changes while a member is running by the
metadata alone: the node must confirm it (`Presence`), deny it, or be unreachable.

Late proposals do no harm. A view is adopted only as the successor of the view that it was derived from. A
node is declared lost, and a queue that only it held is deleted, with the number of an incarnation that has
ended: an incarnation does not begin again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS, ClusterLimits
from mirrormq.cluster.stored_copies import former_copies, stored_copies
from mirrormq.metadata import commands as c
from mirrormq.metadata.changes import Change, Put
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Binding, Exchange, Node, OperatorPolicy, Policy, Queue
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.mirrored_exchanges import mirrored_definition, queues_concerned
from mirrormq.replication.placement import Choose, mirroring, next_view, wanted
from mirrormq.replication.promotion import (
    MemberStatus,
    PromotionRules,
    QueueDown,
    QueueLost,
    rules,
    settle,
)
from mirrormq.replication.replica_index import ReplicaIndex

QUEUES_PER_TURN = 250
"""Dirty queues visited in one call: about ten milliseconds of the loop."""

PROMOTION_TIMEOUT_MS = 30_000
"""Default of `mirroring_promotion_timeout`: how long the members of a ring that have come back after a full
stop wait for the others under `ha-promote-on-failure: always`. Machines that lost power together boot
within some ten seconds of each other; RabbitMQ waits for its last node for 300 s."""

UNMIRRORED_RULES = PromotionRules(on_failure_always=False)
"""Promotion rules of queues that no policy mirrors now: an unsynchronised mirror is not promoted."""

T = TypeVar("T")


def in_commands(changes: list[T], count: int = DEFAULT_LIMITS.changes_per_command) -> Iterator[list[T]]:
    """Split changes into lists that are small enough for one command each."""
    for at in range(0, len(changes), count):
        yield changes[at : at + count]


class Present(NamedTuple):
    """Snapshot of the nodes during one call."""

    nodes: dict[str, Node]
    incarnations: dict[str, int]
    """Incarnation of each running node."""
    living: frozenset[tuple[str, int]]
    """Pairs of running node and incarnation: a ring whose members are all in it is well."""
    running: list[str]
    resting: frozenset[str]
    """Nodes in maintenance: they give their masters away and take no new ones."""


def present(nodes: dict[str, Node], missing: Collection[str] = ()) -> Present:
    """Return the snapshot of the nodes that placement needs; missing nodes count as lost."""
    running = sorted(name for name, node in nodes.items() if node.running and name not in missing)
    incarnations = {name: nodes[name].incarnation for name in running}
    resting = frozenset(name for name in running if nodes[name].maintenance)
    return Present(nodes, incarnations, frozenset(incarnations.items()), running, resting)


def all_alive(view: View, now: Present) -> bool:
    """Return whether all members are alive."""
    return len(view.incarnations) == len(view.members) and view.incarnations <= now.living


def statuses(view: View, now: Present) -> dict[str, MemberStatus]:
    """Return the status of each member of a ring."""
    joined = dict(view.incarnations)
    return {name: _status(now, name, joined.get(name, 0)) for name in view.members}


def _status(now: Present, name: str, joined: int) -> MemberStatus:
    incarnation = now.incarnations.get(name)
    if incarnation is None:
        return MemberStatus.GONE if name in now.nodes else MemberStatus.FORGOTTEN
    return MemberStatus.ALIVE if incarnation == joined else MemberStatus.RETURNED


def _released(queue: Queue, now: Present) -> list[tuple[int, str, int]]:
    """Return copies of unwanted former members that run, once every member of the ring is synchronised."""
    view = queue.ring
    if queue.waits_for or not all_alive(view, now) or view.in_sync != frozenset(view.members):
        return []
    return [
        (queue.queue_id, former.node, former.incarnation)
        for former in queue.former
        if former.node in now.incarnations
        and former.node not in now.resting
        and former.node not in view.members
    ]


class Coordinator:
    """Coordinator of one node; `lead` switches it on and off."""

    def __init__(
        self,
        me: str,
        state: MetadataState,
        policies: PolicyMatcher,
        choose: Choose,
        promotion_timeout_ms: int = PROMOTION_TIMEOUT_MS,
        limits: ClusterLimits = DEFAULT_LIMITS,
    ) -> None:
        self.me = me
        self._changes_per_command = limits.changes_per_command
        self.replica_index = ReplicaIndex(state)
        self._state = state
        self._policies = policies
        self._choose = choose
        self._leading = False
        self._term = 0
        self._reachable: frozenset[str] = frozenset()
        self._serving: Mapping[str, int] | None = None
        """Nodes that confirm that they serve, with their incarnation; None: the metadata is trusted for
        all."""
        self._idle: Mapping[str, int] = {}
        """Nodes that report that they do not serve, with their last incarnation."""
        self._undecided: dict[int, None] = {}
        """Queues with a member that has not confirmed that it serves."""
        self._dirty: dict[int, None] = {}
        """Queues to visit, in the order in which they became dirty."""
        self._missed: dict[str, int] = {}
        """Nodes that were proposed to be declared lost, with their incarnation."""
        self._tally: Counter[str] = Counter()
        """Masters on each node, including those of proposed views."""
        self._promotion_timeout_ms = promotion_timeout_ms
        self._now_ms = 0
        self._compared_since_ms: dict[int, int] = {}
        """Queues with a reported copy and a missing member, with the time at which the wait began."""
        self._settled: dict[tuple[object, ...], View] = {}
        """Results of this call: most queues have equal rings."""

    # -- input ----------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Return whether work is pending."""
        return self._leading and bool(self._dirty or self._lost())

    def lead(self, leading: bool, term: int = 0) -> None:
        """Start or stop acting as the metadata leader. Decisions of an earlier term may be lost, so every
        queue becomes dirty."""
        if leading == self._leading and (term == self._term or not leading):
            return
        self._leading, self._term = leading, term
        self._missed.clear()
        self._compared_since_ms.clear()
        self._undecided.clear()
        self._dirty = dict.fromkeys(self._state.queue_keys) if leading else {}

    def tick(self, now_ms: int) -> None:
        """Advance the clock. Queues whose members have waited long enough become dirty again."""
        self._now_ms = now_ms
        for queue_id in self._compared_since_ms:
            if self._has_waited(queue_id) and queue_id in self._state.queue_keys:
                self._dirty[queue_id] = None

    def _has_waited(self, queue_id: int) -> bool:
        since_ms = self._compared_since_ms.get(queue_id)
        return since_ms is not None and self._now_ms - since_ms >= self._promotion_timeout_ms

    def reach(
        self,
        names: frozenset[str],
        serving: Mapping[str, int] | None = None,
        idle: Mapping[str, int] | None = None,
    ) -> None:
        """Record the nodes that this one has a link to, and their reported states."""
        self._reachable = names
        for name in names - (idle or {}).keys():
            self._missed.pop(name, None)
        if (serving, idle or {}) != (self._serving, self._idle):
            self._serving, self._idle = serving, idle or {}
            self._dirty.update(self._undecided)
            self._undecided.clear()

    def follow(self, change: Change) -> None:
        """Mark queues dirty that a metadata change concerns."""
        self.replica_index.follow(change)
        if not self._leading:
            return
        record = change.record
        if isinstance(record, Queue):
            if isinstance(change, Put):
                self._dirty[record.queue_id] = None
            else:
                self._dirty.pop(record.queue_id, None)
                self._undecided.pop(record.queue_id, None)
                self._compared_since_ms.pop(record.queue_id, None)
        elif isinstance(record, Node):
            self._follow_node(record, change)
        elif isinstance(record, Policy | OperatorPolicy):
            queues = self._state.queues_of(record.vhost).values()
            self._dirty.update((queue.queue_id, None) for queue in queues)
        elif isinstance(record, Binding | Exchange):
            self._dirty.update((queue.queue_id, None) for queue in queues_concerned(self._state, record))

    def _follow_node(self, node: Node, change: Change) -> None:
        if isinstance(change, Put) and node.running and not node.maintenance:
            self._dirty.update(dict.fromkeys(self._state.queue_keys))
        else:
            self._dirty.update(self.replica_index.held.get(node.name, {}))

    # -- output ---------------------------------------------------------------------------------

    def work(self, limit: int = QUEUES_PER_TURN) -> list[c.Command]:
        """Return the commands that the leader should write now. Call again while `pending`."""
        if not self._leading:
            return []
        found: list[c.Command] = []
        # Lost nodes first: the views below must not promote them, and are committed after these commands.
        for node in self._lost():
            self._missed[node.name] = node.incarnation
            self._dirty.update(self.replica_index.held.get(node.name, {}))
            found.append(c.PutNode(msgspec.structs.replace(node, running=False, shutdown=False)))
        changes: list[c.ViewChange] = []
        ended: list[int] = []
        released: list[tuple[int, str, int]] = []
        nodes = self._state.nodes
        now = present(
            nodes, {node.name for node in nodes.values() if self._missed.get(node.name) == node.incarnation}
        )
        self._tally = self.replica_index.masters.copy()
        self._settled = {}
        for queue in self._take(limit):
            decided = self._decide(queue, now)
            if isinstance(decided, QueueLost):
                ended.append(queue.queue_id)
            elif decided is not None:
                changes.append(decided)
            elif queue.former and queue.queue_id not in self._undecided:
                released += _released(queue, now)
        found += map(c.ChangeViews, in_commands(changes, self._changes_per_command))
        found += map(c.ReleaseCopies, in_commands(released, self._changes_per_command))
        found += map(c.DeleteQueues, in_commands(ended, self._changes_per_command))
        return found

    def _lost(self) -> list[Node]:
        """Return nodes that run by the metadata and are unreachable or deny it; each is returned once."""
        return [
            node
            for name, node in self._state.nodes.items()
            if node.running
            and (
                (name != self.me and name not in self._reachable)
                or self._idle.get(name, -1) >= node.incarnation
            )
            and self._missed.get(name) != node.incarnation
        ]

    def _is_uncertain(self, view: View, now: Present) -> bool:
        """Return whether a member runs by the metadata and has not confirmed it."""
        serving = self._serving
        if serving is None:
            return False
        return any(
            name in now.incarnations and serving.get(name) != now.incarnations[name] for name in view.members
        )

    def _take(self, limit: int) -> Iterator[Queue]:
        for queue_id in list(self._dirty)[:limit]:
            del self._dirty[queue_id]
            yield self._state.queues[self._state.queue_keys[queue_id]]

    def _decide(self, queue: Queue, now: Present) -> c.ViewChange | QueueLost | None:
        """Return the next step for one queue; None if there is none."""
        view = queue.ring
        definition = mirrored_definition(self._state, self._policies, queue)
        # Every later step trusts `now`, so none is taken while a member only seems to run.
        if self._is_uncertain(view, now):
            self._undecided[queue.queue_id] = None
            return None
        if all_alive(view, now):
            after: View | QueueDown | QueueLost = self._placed(queue, view, definition, now)
        else:
            policy = rules(definition) if mirroring(definition) else UNMIRRORED_RULES
            after = self._settle(queue, policy, now)
        if not isinstance(after, QueueDown) or not queue.copies:
            self._compared_since_ms.pop(queue.queue_id, None)
        elif not self._has_waited(queue.queue_id):
            self._compared_since_ms.setdefault(queue.queue_id, self._now_ms)
        else:
            # The policy waits without limit. Look again after another timeout: it may have changed.
            del self._compared_since_ms[queue.queue_id]
        if isinstance(after, QueueLost):
            return after
        if isinstance(after, QueueDown):
            if after.waits_for == queue.waits_for and after.view is view:
                return None
            return c.ViewChange(
                queue.queue_id, after.view._replace(version=view.version + 1), after.waits_for
            )
        if after is view:
            return None
        if after.master != view.master:
            self._tally[view.master] -= 1
            self._tally[after.master] += 1
        return c.ViewChange(queue.queue_id, after.with_incarnations(now.incarnations))

    def _settle(self, queue: Queue, policy: PromotionRules, now: Present) -> View | QueueDown | QueueLost:
        """Return the view that follows from each member's status. Rings that differ only in their numbers
        share a cached result, unless a member joins: it remembers the version that it joined with."""
        view, survives = queue.ring, queue.survives_restart
        # Without epoch and version: after the loss of a node, a thousand equal rings are settled once.
        # With the former members: of unsynchronised mirrors, the last one in sync is promoted.
        key = view[2:], policy, survives, queue.former
        known = self._settled.get(key)
        if known is not None:
            return View(view.epoch + known.epoch, view.version + 1, *known[2:])
        master = now.nodes.get(view.master)
        members = statuses(view, now)
        after = settle(
            view,
            members,
            policy,
            shutdown=master is not None and master.shutdown,
            survives=survives,
            copies=stored_copies(queue, now.nodes),
            waited=self._has_waited(queue.queue_id),
            former=former_copies(queue, now.nodes) if queue.former else {},
        )
        # After a return or a removal the result depends on the queue's stored copies, which the key lacks.
        if isinstance(after, View) and not {MemberStatus.RETURNED, MemberStatus.FORGOTTEN}.intersection(
            members.values()
        ):
            self._settled[key] = after._replace(epoch=after.epoch - view.epoch)
        return after

    def _placed(self, queue: Queue, view: View, definition: Mapping[str, object], now: Present) -> View:
        """Return the view after one step of placement; `view` itself if the replicas are in place."""
        policy = None if queue.exclusive else mirroring(definition)
        master, mirrors = wanted(policy, view, now.running, self._choose, now.resting)
        # Maintenance gives the role away, never the copy: only a synchronised mirror may take over.
        if master in now.resting:
            able = [name for name in mirrors if name in view.in_sync and name not in now.resting]
            if able:
                successor = min(able, key=lambda name: self._tally[name])
                master, mirrors = successor, (master, *(name for name in mirrors if name != successor))
        return next_view(view, master, mirrors)
