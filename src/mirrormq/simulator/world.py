"""Simulated world of one run: nodes, links, clients, faults, and the phases of the run.

    form      all nodes start and find each other
    load      clients publish and consume; faults begin and end as the schedule says
    heal      no more faults; stopped nodes are started, clients rest, forked sides become one
    compare   every copy of every queue is compared, while the queues hold messages
    drain     consumers take the remaining messages
    judge     the checkers report errors

All random numbers come from one seed, and time is simulated. So a failing seed fails again, and
`SimulationOptions.left_out` finds the faults that the failure needs.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from mirrormq.broker.broker import Broker
from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.controller import ControllerMessage
from mirrormq.cluster.lifecycle import LifecyclePhase
from mirrormq.cluster.partitions import AUTO, IGNORE, PAUSE_MINORITY, PartitionHandling
from mirrormq.connections.open_connections import open_channels
from mirrormq.consensus import Snapshot, founded
from mirrormq.metadata import commands as c
from mirrormq.metadata import records
from mirrormq.metadata.cluster_name import CLUSTER_NAME
from mirrormq.metadata.command_versions import MembersTooOld
from mirrormq.metadata.index_tables import TABLES
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.queue import Queue
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.simulator import checkers, fault_plan
from mirrormq.simulator.checkers import SimulatedCopy
from mirrormq.simulator.drainer import Drainer
from mirrormq.simulator.fault_injector import MIRRORED, POLICIES, POLICY, FaultInjector
from mirrormq.simulator.lease_client import LeaseClient
from mirrormq.simulator.link_run import LinkRun
from mirrormq.simulator.network import Network
from mirrormq.simulator.operator import Operator
from mirrormq.simulator.pipeline_checkers import PublishIdsAreKeptOnce, ReadsAreRepeatable
from mirrormq.simulator.pipeline_clients import ProducerClient, RangeReader, numbered
from mirrormq.simulator.probes import Probes
from mirrormq.simulator.run_history import RunHistory
from mirrormq.simulator.simulated_application import SimulatedApplication
from mirrormq.simulator.simulated_federation import (
    CLUSTER,
    FederationFounder,
    SimulatedFederation,
    UpstreamPublisher,
)
from mirrormq.simulator.simulated_links import SimulatedShovel
from mirrormq.simulator.simulated_node import HostedApplication, SimulatedNode
from mirrormq.simulator.tight_limits import limits_of
from mirrormq.simulator.transaction_clients import GetClient, Holder, TransactionClient
from mirrormq.simulator.virtual_time import VirtualTime
from mirrormq.simulator.workload import (
    LIFETIME_MS,
    SimulatedClient,
    SimulatedConsumer,
    SimulatedPublisher,
    mirrored,
    mortal,
    single,
)

CHANGES_BIT = 8
"""Bit of a fault's dice that selects one of two policies, where they differ in `ha-redeliver`."""

TRACE_LINES = 400
"""Number of events that the trace keeps."""

CHECK_MS = 100
FORM_MS = 20_000
PUBLISH_ON_MS = 500
"""Time that publishers continue after consumers have left, so that queues are not empty."""

SETTLE_MS = 120_000
"""Time limit of healing and draining, far longer than both take."""

EVENTS_MAX = 2_000_000
"""Limit of events, a hundred times what a run takes: detects nodes that exchange messages endlessly."""


class SimulationOptions(NamedTuple):
    """Options of a run."""

    seed: int
    nodes: int = 3
    mode: str = AUTO
    load_ms: int = 10_000
    faults: int = 4
    queues: tuple[str, ...] = ("m0", "m1")
    """Names of the queues; the first letter is the kind (`workload.durable`)."""
    publishers: int = 3
    consumers: int = 3
    listed: frozenset[str] = frozenset()
    """Nodes listed by pause_if_all_down: a node must see one of them."""
    recover: str = IGNORE
    """Recovery mode of pause_if_all_down, for two sides that both saw a listed node."""
    committers: int = 0
    getters: int = 0
    leasers: int = 0
    tight_limits: int = 0
    """Number that selects the tight limits (`simulator.tight_limits`); 0: none."""
    holders: int = 0
    producers: int = 0
    """Producers with publish ids, for the queues of their own (`pipeline_clients.numbered`)."""
    readers: int = 0
    shovels: tuple[SimulatedShovel, ...] = ()
    federations: tuple[SimulatedFederation, ...] = ()
    break_permille: int = 0
    """Probability that a link's connection breaks when data arrives."""
    redeliver: str = ""
    """`ha-redeliver`: empty for no such key, `lost`, or `changing` between the two."""
    fault_kinds: tuple[str, ...] = tuple(fault_plan.KINDS)
    """Kinds of faults to draw."""
    upgrade: bool = False
    """Whether all nodes begin with the oldest protocol version, and are upgraded one by one."""
    schedule: tuple[fault_plan.Fault, ...] | None = None
    """Schedule of faults, if it is not to be drawn."""
    left_out: frozenset[int] = frozenset()
    """Numbers of faults that do not happen."""
    make_application: Callable[
        [SimulatedNode, Callable[[SimulatedNode], None], LinkRun | None], HostedApplication
    ] = SimulatedApplication


class SimulationFailed(Exception):
    """Failure of a run; the text contains the errors, and `kinds` the checkers that found them."""

    def __init__(self, text: str, kinds: frozenset[str] = frozenset()) -> None:
        super().__init__(text)
        self.kinds = kinds


class World:
    """World of one run."""

    def __init__(self, options: SimulationOptions) -> None:
        self.options = options
        self.choice = random.Random(options.seed)
        self.handling = PartitionHandling(options.mode, options.listed, options.recover)
        self.limits = limits_of(options.tight_limits)
        self.timeline = VirtualTime(events_max=EVENTS_MAX)
        self.history = RunHistory()
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        encoder = msgspec.msgpack.Encoder(order="deterministic")
        decoder: Any = msgspec.msgpack.Decoder(ClusterMessage | ControllerMessage | RingBatch | RemoteMessage)
        self.network = Network(self.timeline, self.choice.randrange, encoder.encode, decoder.decode)
        self.names = [chr(ord("a") + number) for number in range(options.nodes)]
        parting = self._parting = self.handling.in_force(self.names) != PAUSE_MINORITY
        self.watch = Probes(parting=parting)
        self.nodes = {
            name: SimulatedNode(self, name, f"{options.seed} {name}", self.watch.make_log)
            for name in self.names
        }
        self.clients: list[SimulatedClient] = []
        self._consumers: list[SimulatedConsumer] = []
        self.fault_injector = FaultInjector(self)
        self.operator = Operator(self)
        self.timeline.on_crash = self.fault_injector.crashed
        self.kept = checkers.ConfirmedIsKept()
        self.redelivery = checkers.RedeliveryIsMarked()
        self.held = checkers.HeldIsNotRedelivered(lambda queue: options.redeliver != "" and mirrored(queue))
        self.minority = checkers.MinorityIsSilent()
        self._filled: list[SimulatedCopy] = []
        self.link_run = LinkRun(
            self, options.shovels, options.federations, random.Random(f"{options.seed} links"),
            self.watch.damaged, self.watch.story, parting=parting,
        )  # fmt: skip
        self.checkers: list[checkers.Checker] = [
            self.kept, checkers.NothingIsInvented(), self.redelivery,
            checkers.OrderIsKept(self.watch.damaged), checkers.MirrorsAreEqual(), checkers.MetadataIsEqual(),
            checkers.EverythingSettles(), self.minority, self.watch.one_master, self.watch.logs,
            self.watch.rings, self.watch.acks, checkers.OneIsActive(single, self.watch.damaged),
            checkers.TakesAreRepeatable(parting=parting), self.held, checkers.NothingIsStranded(),
            PublishIdsAreKeptOnce(numbered), ReadsAreRepeatable(parting=parting),
            *self.link_run.checkers,
        ]  # fmt: skip
        self.schedule = fault_plan.without(self._faults(), set(options.left_out))
        self.fault_injector.begin_older(self.schedule)

    def _faults(self) -> tuple[fault_plan.Fault, ...]:
        options = self.options
        if options.schedule is not None:
            return options.schedule
        choice = random.Random(f"{options.seed} faults")
        faults = fault_plan.draw(choice, self.names, options.load_ms, options.faults, options.fault_kinds)
        if options.upgrade:
            choice = random.Random(f"{options.seed} upgrades")
            faults += fault_plan.upgrades(choice, self.names, options.load_ms, len(faults))
        return tuple(faults)

    # -- environment of nodes and clients ---------------------------------------------------------

    def first_state(self) -> Snapshot:
        """Return the first snapshot: all nodes are founders, and know each other."""
        state = MetadataState()
        for name in self.names:
            state.apply(c.PutNode(records.Node(name, f"{name}:1", running=True)))
        state.apply(c.PutVhost(records.Vhost("/")))
        state.apply(c.PutUser(records.User("guest", tags=["administrator"])))
        state.apply(c.PutPermission(records.Permission("guest", "/", ".*", ".*", ".*")))
        state.apply(c.PutPolicy(records.Policy("/", POLICY, MIRRORED, definition=self.policy(0))))
        state.apply(c.PutGlobalParameter(records.GlobalParameter(CLUSTER_NAME, CLUSTER)))
        for link in self.link_run.routes:
            for command in link.definition(self.policy(0)):
                state.apply(command)
        return founded(self.names, 77, state.snapshot())

    def policy(self, dice: int) -> dict[str, Any]:
        """Return one of the policies of this run; the first is in force at the beginning and at the end."""
        definition = POLICIES[dice % len(POLICIES)]
        changing = self.options.redeliver == "changing" and dice >> CHANGES_BIT & 1
        if self.options.redeliver and "ha-mode" in definition and not changing:
            return {**definition, "ha-redeliver": "lost"}
        self.held.excuse()
        return definition

    def make_application(self, node: SimulatedNode) -> HostedApplication:
        """Create the application of a node, with the real broker."""
        return self.options.make_application(
            node, self._turned, self.link_run if self.link_run.routes else None
        )

    def serving(self) -> list[str]:
        """Return the nodes that take clients now."""
        return [
            name for name in self.names if self.broker(name) is not None and name not in self.network.frozen
        ]

    def broker(self, node: str) -> Broker | None:
        """Return the broker of a node; None if it does not serve."""
        found = self.nodes[node]
        application = found.application if found.running else None
        return application.broker if isinstance(application, SimulatedApplication) else None

    def nudge(self, node: str) -> None:
        """Schedule a turn of a node after client input."""
        self.nodes[node].wake()

    def _turned(self, node: SimulatedNode) -> None:
        broker = self.broker(node.name)
        if broker is not None:
            self.watch.turned(node, broker)
            self.link_run.turned(node.name, broker)
        for consumer in self._consumers:
            consumer.notice(node.member.metadata.state.nodes)
        for client in self.clients:
            if client.node == node.name:
                client.poll()

    def write(self, command: c.Command) -> None:
        """Write a command through any running node."""
        for node in self.nodes.values():
            if node.running and node.member.leader is not None:
                try:
                    node.member.metadata.write(command)
                except MembersTooOld as refusal:
                    self.note(str(refusal))
                node.mark_dirty()
                return

    def excuse_reports(self, from_ms: int, to_ms: int) -> None:
        """Excuse reports that a node sent in this time: they may not have arrived."""
        self.redelivery.excuse(from_ms, to_ms)

    def single_copy(self, from_ms: int, to_ms: int) -> None:
        """Excuse messages confirmed in this time: they may have been on one disk only, which failed."""
        self.kept.excuse(from_ms, to_ms)
        self.watch.acks.excuse(from_ms, to_ms)

    def note(self, text: str) -> None:
        """Record an event in the trace."""
        self.trace.append(f"{self.timeline.now_ms:>8} {text}")

    # -- run ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all phases; raises SimulationFailed."""
        for node in self.nodes.values():
            node.start()
        self._until(lambda: self.serving() == self.names, FORM_MS, "the cluster did not form")
        if self.options.federations:
            self._begin_federation()
        self._start_clients()
        self.timeline.every(CHECK_MS, self._look)
        self.fault_injector.plan(self.schedule, self.timeline.now_ms)
        self.link_run.begin(self.options.break_permille, faulty=bool(self.schedule))
        self._pass(self.options.load_ms + 100)
        self._heal()
        if any(map(mortal, self.options.queues)):
            self._pass(LIFETIME_MS[1])
        self._filled = self.copies()
        for name in self.names:
            if (broker := self.broker(name)) is not None:
                self.watch.take_stock(broker)
        self._drain()
        self._judge()

    def _begin_federation(self) -> None:
        """Declare both ends of federation, and wait for its links: earlier publishes reach no queue."""
        choice = random.Random(f"{self.options.seed} federation founder")
        founder = FederationFounder(self, "founder", self.options.federations, choice)
        self.clients.append(founder)
        self._until(
            lambda: founder.done and not list(self.link_run.unsettled()),
            FORM_MS,
            "the links of federation did not start",
        )

    def _start_clients(self) -> None:
        options = self.options
        shared = [queue for queue in options.queues if not numbered(queue)]
        own = [queue for queue in options.queues if numbered(queue)]
        for kind, letter, count, queues in (
            (SimulatedPublisher, "p", options.publishers, shared),
            (SimulatedConsumer, "c", options.consumers, shared),
            (TransactionClient, "t", options.committers, shared),
            (GetClient, "g", options.getters, shared),
            (Holder, "h", options.holders, shared),
            (LeaseClient, "l", options.leasers, shared),
            (ProducerClient, "i", options.producers, own),
            (RangeReader, "r", options.readers, options.queues),
            (SimulatedPublisher, "f", len(self.link_run.queues), self.link_run.queues),
            (UpstreamPublisher, "x", len(self.link_run.internal_queues), self.link_run.internal_queues),
        ):
            for number in range(count):
                self._start_client(kind, f"{letter}{number}", queues)

    def _start_client(self, kind: type[SimulatedClient], name: str, queues: Sequence[str]) -> None:
        client = kind(self, name, queues, random.Random(f"{self.options.seed} {name}"))
        self.clients.append(client)
        if isinstance(client, SimulatedConsumer):
            self._consumers.append(client)

    def _pass(self, milliseconds: int) -> None:
        self.timeline.run_until(self.timeline.now_ms + milliseconds)

    def _until(self, condition: Callable[[], bool], most_ms: int, what: str) -> None:
        end = self.timeline.now_ms + most_ms
        while not condition():
            if self.timeline.now_ms >= end:
                raise SimulationFailed(what)
            self._pass(50)

    def _look(self) -> None:
        """Run the checks that need periodic inspection."""
        now = self.timeline.now_ms
        self.minority.observe(now, self._outnumbered(), self.history)
        self.link_run.check_runners()
        if self._stories() > 1:
            self.held.excuse()
            self.excuse_reports(now - 2 * CHECK_MS, now + 2 * CHECK_MS)
        for node in self.nodes.values():
            broker = self.broker(node.name)
            if broker is not None:
                self.watch.alone(node, broker)

    def _stories(self) -> int:
        """Return the number of sides that continue separately."""
        members = [node.member for node in self.nodes.values() if node.running]
        forked = any(member.consensus.forks for member in members)
        return max(sum(member.leading for member in members), 1 + (forked or self._lost_node_serves()))

    def _lost_node_serves(self) -> bool:
        """Return whether a node serves that another one counts as lost, in a mode in which both sides may
        continue. A node that has no leader cannot learn it."""
        states = [node.member.metadata.state for node in self.nodes.values() if node.running]
        return self._parting and any(
            (record := state.nodes.get(name)) is not None
            and (not record.running or record.incarnation > broker.incarnation)
            for name in self.names
            if (broker := self.broker(name)) is not None
            for state in states
        )

    def _outnumbered(self) -> list[str]:
        """Return the nodes that may not serve at present. Frozen nodes are excluded, so that a node that
        wakes has time to notice."""
        found = []
        for name in sorted(set(self.names) - self.network.frozen):
            seen = [other for other in self.names if other != name and self.network.linked(name, other)]
            if not self.handling.may_go_on(name, self.names, seen):
                found.append(name)
        return found

    def _heal(self) -> None:
        self.note("all faults are over")
        self.link_run.heal()
        for consumer in self._consumers:
            consumer.rest()
        self._pass(PUBLISH_ON_MS)
        for client in self.clients:
            client.rest()
        end = self.timeline.now_ms + SETTLE_MS
        while self.timeline.now_ms < end and not (
            # Comparing copies reads them, and reading may find damage that must be repaired first.
            self.operator.is_content() and self._agrees() and not self.unsettled()
        ):
            self.operator.act()
            self._pass(CHECK_MS)
        if self.link_run.routes:
            # Links go on: a master removes a message, or delivers one, a moment before its mirrors know.
            self._pass(CHECK_MS)
            while self.timeline.now_ms < end and not self._agrees():
                self._pass(CHECK_MS)

    def _drain(self) -> None:
        self.note("the queues are drained")
        for client in self.clients:
            if isinstance(client, LeaseClient):
                client.give_back()
        for number, queue in enumerate((*self.options.queues, *self.link_run.destinations)):
            self._start_client(Drainer, f"d{number}", [queue])
        end = self.timeline.now_ms + SETTLE_MS
        while self.timeline.now_ms < end and (self._undrained() or self.unsettled() or not self._agrees()):
            self._pass(CHECK_MS)

    def _agrees(self) -> bool:
        """Return whether all nodes have the same metadata, and all mirrors have every operation of their
        master."""
        copies = self.copies()
        masters = {copy.queue: copy for copy in copies if copy.master}
        return len(set(self.metadata().values())) == 1 and all(
            copy.queue in masters and copy.received == masters[copy.queue].received for copy in copies
        )

    def _undrained(self) -> list[str]:
        """Return nodes that hold messages, and drainers that have not found their queue yet."""
        drainers = [client for client in self.clients if isinstance(client, Drainer)]
        return [client.name for client in drainers if not client.consumes] + [
            name
            for name, node in self.nodes.items()
            if node.running
            and isinstance(node.application, SimulatedApplication)
            and not node.application.empty()
        ]

    def _judge(self) -> None:
        found = [
            (type(checker).__name__, wrong) for checker in self.checkers for wrong in checker.finish(self)
        ]
        if found:
            raise SimulationFailed(
                "\n".join(wrong for _, wrong in found), frozenset(kind for kind, _ in found)
            )

    # -- end state ------------------------------------------------------------------------------

    def copies(self) -> list[SimulatedCopy]:
        """Return every node's copy of every queue. Reading may find damage, which nodes repair in a turn."""
        copies: list[SimulatedCopy] = []
        for node in self.nodes.values():
            if node.running and isinstance(node.application, SimulatedApplication):
                copies += node.application.copies()
                node.wake()
        return copies

    def metadata(self) -> dict[str, bytes]:
        """Return every node's metadata."""
        encode = msgspec.msgpack.Encoder(order="sorted").encode
        found = {}
        for name, node in self.nodes.items():
            if node.running:
                state = node.member.metadata.state
                found[name] = encode(
                    [sorted(map(encode, getattr(state, table).values())) for table in TABLES]
                )
        return found

    def filled(self) -> list[SimulatedCopy]:
        """Return the copies before the queues were drained."""
        return self._filled

    def stranded(self) -> list[str]:
        """Return the queues with messages that are neither ready nor with a client."""
        brokers = [broker for name in self.names if (broker := self.broker(name)) is not None]
        out = Counter(
            delivery[1].name
            for broker in brokers
            for channel in open_channels(broker)
            for delivery in channel.unacked.by_tag.values()
        )
        queues = [queue for broker in brokers for queue in broker.vhosts["/"].queues.values()]
        return [
            f"{queue.backing.unacked_count - out[queue.name]} messages of {queue.name} have no consumer"
            for queue in queues
            if isinstance(queue, Queue) and queue.backing.unacked_count > out[queue.name]
        ]

    def unsettled(self) -> list[str]:
        """Return the deviations from the healthy state, as texts."""
        serving = self.serving()
        found = [f"{name} does not serve" for name in self.names if name not in serving]
        found += [
            f"{node.name} is leaving"
            for node in self.nodes.values()
            if node.running and node.controller.serving.phase is LifecyclePhase.LEAVING
        ]
        found += [
            f"{node.name} waits for what it wrote to be agreed upon"
            for node in self.nodes.values()
            if node.running and node.member.consensus.state.proposals.outstanding
        ]
        for node in self.nodes.values():
            if node.running:
                found += [
                    f"{node.name}: ring of {queue.name} is {queue.ring}, it waits for {queue.waits_for}"
                    for queue in node.member.metadata.state.queues.values()
                    if not self._is_whole(queue, node.member.metadata.state)
                ]
        found += [
            f"{node.name} keeps orphans"
            for node in self.nodes.values()
            if node.running
            and isinstance(node.application, SimulatedApplication)
            and node.application.has_orphans()
        ]
        found += [f"{name} has damaged messages" for name in self.names if self._has_damage(name)]
        found += [
            f"{client.name} waits for {client.unanswered} confirms"
            for client in self.clients
            if isinstance(client, SimulatedPublisher | TransactionClient) and client.unanswered
        ]
        found += self.link_run.unsettled()
        found += [f"{copy.queue} on {copy.node} is not drained" for copy in self._left() if copy.bodies]
        return found[:6]

    def _has_damage(self, name: str) -> bool:
        """Return whether a node has damaged records of messages that another node has, or must have."""
        broker = self.broker(name)
        damaged = [
            (queue_id, sequence)
            for queue_id, sequences in (broker.journal.damage.pending() if broker is not None else {}).items()
            for sequence in sequences
        ]
        others = [other for other in map(self.broker, self.names) if other not in (None, broker)]
        bodies = {body for place in damaged for body in self.watch.acks.bodies(*place)}
        return bool(self.kept.covered(bodies, self.history)) or any(
            _has_good_copy(other, *place) for other in others if other is not None for place in damaged
        )

    def _is_whole(self, queue: records.Queue, state: MetadataState) -> bool:
        """Return whether a queue has a master and all its mirrors, in the present incarnations of their
        nodes."""
        living = {(node.name, node.incarnation) for node in state.nodes.values() if node.running}
        return (
            not queue.waits_for
            and queue.ring.incarnations <= living
            and (not mirrored(queue.name) or len(queue.ring.in_sync) == len(self.names))
        )

    def _left(self) -> list[SimulatedCopy]:
        drained = any(isinstance(client, Drainer) for client in self.clients)
        return self.copies() if drained else []


def _has_good_copy(broker: Broker, queue_id: int, sequence: int) -> bool:
    """Return whether a node stores a message of a queue whose record it has not found damaged."""
    store = broker.journal.queues.get(queue_id)
    damaged = broker.journal.damage.pending().get(queue_id, ())
    return store is not None and store.has(sequence) and sequence not in damaged
