"""Links of a simulated run: their shovels, connections, faults and checkers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mirrormq.bridges.link_placement import SHOVEL
from mirrormq.bridges.link_status import LinkState
from mirrormq.broker.broker import Broker
from mirrormq.metadata import commands as c
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
from mirrormq.simulator.simulated_links import SimulatedLinkRunner, SimulatedShovel
from mirrormq.simulator.simulated_node import SimulatedNode

LOSSY = ("on-publish", "no-ack")
"""Acknowledgement modes that lose messages by breaks."""

CROWD_GAP_MS = 250
"""Two times with more than one consumer are one if they are not further apart."""

RESTART_MS = 1_000
"""Mean interval in which an operator restarts a link."""

AFTERMATH_MS = 5_000
"""Time after the last fault in which nodes may still give connections up."""


class LinkHosts(SocketHosts, Protocol):
    """World from the links' point of view."""

    history: RunHistory

    def serving(self) -> list[str]:
        """Return the nodes that take clients now."""

    def write(self, command: c.Command) -> None:
        """Write a command through any running node."""


class LinkRun:
    """Shovels of a run, and what their links do on all nodes."""

    def __init__(
        self,
        hosts: LinkHosts,
        shovels: Sequence[SimulatedShovel],
        choice: random.Random,
        damaged: set[str],
        story: Callable[[SimulatedNode], object],
        *,
        parting: bool,
    ) -> None:
        self._hosts = hosts
        self.history = hosts.history
        self.shovels = shovels
        self._choice = choice
        self._story = story
        self._faulty = False
        self.sockets = LinkSockets(hosts, choice)
        self._runners: list[SimulatedLinkRunner] = []
        self._one_runner = OneRunner(parting=parting)
        self._losses = LinksLoseOnlyByBreaks()
        self.checkers: list[Checker] = [
            self._one_runner,
            self._losses,
            LinksKeepOrder(shovels, damaged, parting=parting),
            LinksRepeatOnlyWhatComesAgain(shovels, parting=parting),
        ]
        self.history.lossy = frozenset(shovel.source for shovel in shovels if shovel.mode in LOSSY)

    @property
    def sources(self) -> list[str]:
        """Source queues."""
        return list(dict.fromkeys(shovel.source for shovel in self.shovels))

    @property
    def destinations(self) -> list[str]:
        """Destination queues."""
        return list(dict.fromkeys(shovel.destination for shovel in self.shovels))

    # -- phases -----------------------------------------------------------------------------------

    def begin(self, break_permille: int, *, faulty: bool) -> None:
        """Begin the load phase; `faulty`: nodes fail, too."""
        self.sockets.break_rate = break_permille / 1000
        self._faulty = faulty
        if break_permille:
            self._plan_restart()

    def heal(self) -> None:
        """End all faults."""
        self.sockets.break_rate = 0.0
        if self._faulty:
            self._losses.faults_end_ms = self._hosts.timeline.now_ms + AFTERMATH_MS

    def _plan_restart(self) -> None:
        self._hosts.timeline.after(self._choice.randrange(2 * RESTART_MS), self._restart)

    def _restart(self) -> None:
        if self.sockets.break_rate:
            shovel = self._choice.choice(self.shovels)
            self._hosts.write(c.RestartLink("/", SHOVEL, shovel.name))
            self._plan_restart()

    # -- observation ------------------------------------------------------------------------------

    def begins(self, runner: SimulatedLinkRunner) -> None:
        """Record the start of a runner."""
        self._runners.append(runner)
        self._one_runner.starts(runner.record, runner.node.name, self._story(runner.node))

    def turned(self, node: str, broker: Broker) -> None:
        """Note sources with more than one consumer: a connection lingers that its link has given up. Then
        let links read what the node wrote."""
        for shovel in self.shovels:
            queue = broker.vhosts["/"].queues.get(shovel.source)
            if isinstance(queue, Queue) and len(queue.consumers.all) > 1:
                now_ms = self._hosts.timeline.now_ms
                times = self.history.crowded_ms.setdefault(shovel.source, [])
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
        for shovel in self.shovels:
            runners = [runner for runner in self._living() if runner.record.name == shovel.name]
            if len(runners) != 1:
                nodes = ", ".join(runner.node.name for runner in runners) or "no node"
                yield f"link {shovel.name} runs on {nodes}"
                continue
            status = runners[0].link.status()
            if status.state != LinkState.RUNNING.value:
                yield f"link {shovel.name} is {status.state}: {status.reason}"
            elif status.pending or status.unconfirmed:
                yield f"link {shovel.name} has {status.pending} pending, {status.unconfirmed} unconfirmed"
        for broker in filter(None, map(self._hosts.broker, self._hosts.serving())):
            for source in self.sources:
                queue = broker.vhosts["/"].queues.get(source)
                if isinstance(queue, Queue) and queue.backing.ready_count + queue.backing.unacked_count:
                    yield f"{source} holds messages for its link"
