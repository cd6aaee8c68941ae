"""Links of a simulated run: shovels and federation, their connections, faults and checkers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mirrormq.bridges.link_status import LinkState
from mirrormq.broker.broker import Broker
from mirrormq.metadata import commands as c
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.queue import Queue
from mirrormq.simulator.checkers import Checker
from mirrormq.simulator.link_checkers import (
    LinksKeepOrder,
    LinksLoseOnlyByBreaks,
    LinksRepeatOnlyWhatComesAgain,
    OneRunner,
)
from mirrormq.simulator.link_sockets import LinkSockets, SocketHosts
from mirrormq.simulator.run_history import RunHistory
from mirrormq.simulator.simulated_federation import EXCHANGE, QUEUE, SimulatedFederation
from mirrormq.simulator.simulated_links import SimulatedLinkRunner, SimulatedLinks, SimulatedShovel
from mirrormq.simulator.simulated_node import SimulatedNode

LOSSY = ("on-publish", "no-ack")
"""Acknowledgement modes that lose messages by breaks."""

CROWD_GAP_MS = 250
"""Two times with more than one consumer are one if they are not further apart."""

RESTART_MS = 1_000
"""Mean interval in which an operator restarts a link."""

REBIND_MS = 400
"""Mean interval in which an operator changes a binding of a federated exchange."""

DEMAND_MS = 300
"""Mean time in which a federated queue needs messages, or needs none."""

AFTERMATH_MS = 5_000
"""Time after the last fault in which nodes may still give connections up."""


SimulatedRoute = SimulatedShovel | SimulatedFederation


class LinkHosts(SocketHosts, Protocol):
    """World from the links' point of view."""

    history: RunHistory

    def serving(self) -> list[str]:
        """Return the nodes that take clients now."""

    def write(self, command: c.Command) -> None:
        """Write a command through any running node."""


class LinkRun:
    """Shovels and federation of a run, and what their links do on all nodes."""

    def __init__(
        self,
        hosts: LinkHosts,
        shovels: Sequence[SimulatedShovel],
        federations: Sequence[SimulatedFederation],
        choice: random.Random,
        damaged: set[str],
        story: Callable[[SimulatedNode], object],
        *,
        parting: bool,
    ) -> None:
        self._hosts = hosts
        self.history = hosts.history
        self.routes: tuple[SimulatedRoute, ...] = (*shovels, *federations)
        self._federations = federations
        self.demanded = True
        """Whether federated queues need messages now."""
        self._hosted: list[SimulatedLinks] = []
        self._choice = choice
        self._story = story
        self._faulty = False
        self._loaded = False
        self.sockets = LinkSockets(hosts, choice)
        self._runners: list[SimulatedLinkRunner] = []
        self._one_runner = OneRunner(parting=parting)
        self._losses = LinksLoseOnlyByBreaks()
        self.checkers: list[Checker] = [
            self._one_runner,
            self._losses,
            LinksKeepOrder(self.routes, damaged, parting=parting),
            LinksRepeatOnlyWhatComesAgain(self.routes, parting=parting),
        ]
        self.history.lossy = frozenset(route.source for route in self.routes if route.mode in LOSSY)

    @property
    def queues(self) -> list[str]:
        """Source queues that publishers declare and fill."""
        declared = [route.source for route in self.routes if route.source not in self.internal_queues]
        return list(dict.fromkeys(declared))

    @property
    def internal_queues(self) -> list[str]:
        """Source queues of exchange links."""
        return [each.source for each in self._federations if each.object == EXCHANGE]

    @property
    def destinations(self) -> list[str]:
        """Destination queues."""
        return list(dict.fromkeys(route.destination for route in self.routes))

    # -- phases -----------------------------------------------------------------------------------

    def begin(self, break_permille: int, *, faulty: bool) -> None:
        """Begin the load phase; `faulty`: nodes fail, too."""
        self.sockets.break_rate = break_permille / 1000
        self._faulty = faulty
        self._loaded = True
        if break_permille:
            self._plan_restart()
        if self.internal_queues:
            self._plan(REBIND_MS, self._rebind)
        if any(each.object == QUEUE for each in self._federations):
            self._plan(DEMAND_MS, self._change_demand)

    def heal(self) -> None:
        """End all faults."""
        self._loaded = False
        self.sockets.break_rate = 0.0
        self._demand(True)
        if self._faulty:
            self._losses.faults_end_ms = self._hosts.timeline.now_ms + AFTERMATH_MS

    def _plan_restart(self) -> None:
        self._hosts.timeline.after(self._choice.randrange(2 * RESTART_MS), self._restart)

    def _restart(self) -> None:
        if self.sockets.break_rate:
            route = self._choice.choice(self.routes)
            self._hosts.write(c.RestartLink("/", route.kind, route.name))
            self._plan_restart()

    def _plan(self, mean_ms: int, action: Callable[[], None]) -> None:
        """Repeat an action until the end of the load phase."""

        def act() -> None:
            if self._loaded:
                action()
                self._plan(mean_ms, action)

        self._hosts.timeline.after(self._choice.randrange(2 * mean_ms), act)

    def _rebind(self) -> None:
        federation = self._choice.choice([each for each in self._federations if each.object == EXCHANGE])
        if (state := self._state()) is not None:
            self._hosts.write(federation.rebind(state, self._choice))

    def _state(self) -> MetadataState | None:
        """Return the metadata of a node that serves."""
        brokers = filter(None, map(self._hosts.broker, self._hosts.serving()))
        return next((broker.metadata.state for broker in brokers), None)

    def _change_demand(self) -> None:
        self._demand(not self.demanded)

    def _demand(self, demanded: bool) -> None:
        self.demanded = demanded
        for links in self._hosted:
            links.serve_demand(demanded)

    def hosts(self, links: SimulatedLinks) -> None:
        """Record that an application runs links."""
        self._hosted.append(links)

    def hosts_no_more(self, links: SimulatedLinks) -> None:
        """Forget an application that has ended."""
        self._hosted.remove(links)

    # -- observation ------------------------------------------------------------------------------

    def begins(self, runner: SimulatedLinkRunner) -> None:
        """Record the start of a runner."""
        self._runners.append(runner)
        self._one_runner.starts(runner.record, runner.node.name, self._story(runner.node))

    def turned(self, node: str, broker: Broker) -> None:
        """Note sources with more than one consumer: a connection lingers that its link has given up. Then
        let links read what the node wrote."""
        for route in self.routes:
            queue = broker.vhosts["/"].queues.get(route.source)
            if isinstance(queue, Queue) and len(queue.consumers.all) > 1:
                now_ms = self._hosts.timeline.now_ms
                times = self.history.crowded_ms.setdefault(route.source, [])
                joined = bool(times) and now_ms - times[-1][1] < CROWD_GAP_MS
                times.append((times.pop()[0] if joined else now_ms, now_ms))
        self.sockets.turned(node)

    def check_runners(self) -> None:
        """Check periodically that no link runs twice for longer than its former node needs to notice."""
        awake = [runner for runner in self._living() if runner.node.name in self._hosts.serving()]
        running = [(runner.record, runner.node.name) for runner in awake]
        self._one_runner.observe(self._hosts.timeline.now_ms, running)

    def _living(self) -> list[SimulatedLinkRunner]:
        self._runners = [runner for runner in self._runners if runner.lives]
        return self._runners

    def unsettled(self) -> Iterator[str]:
        """Yield links that do not run on exactly one node, and messages that wait for them, as texts."""
        for route in self.routes:
            runners = [runner for runner in self._living() if runner.record.name == route.name]
            if len(runners) != 1:
                nodes = ", ".join(runner.node.name for runner in runners) or "no node"
                yield f"link {route.name} runs on {nodes}"
                continue
            status = runners[0].link.status()
            if status.state != LinkState.RUNNING.value:
                yield f"link {route.name} is {status.state}: {status.reason}"
            elif status.pending or status.unconfirmed:
                yield f"link {route.name} has {status.pending} pending, {status.unconfirmed} unconfirmed"
        if (state := self._state()) is not None:
            for federation in self._federations:
                yield from federation.unsettled(state)
        for broker in filter(None, map(self._hosts.broker, self._hosts.serving())):
            for source in (*self.queues, *self.internal_queues):
                queue = broker.vhosts["/"].queues.get(source)
                if isinstance(queue, Queue) and queue.backing.ready_count + queue.backing.unacked_count:
                    yield f"{source} holds messages for its link"
