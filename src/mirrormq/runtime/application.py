"""Broker application of one node: journal, broker, turn loop, listeners, management.

RabbitMQ calls this part of a node the application, and this code does too. It stops and starts inside the
process: by `stop_app` and `start_app`, after a lost quorum, after the node was declared lost. Each start
builds all of it again from disk. Objects that outlive it are in `runtime/node.py`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq import limits
from mirrormq.broker.broker import Broker, Environment
from mirrormq.broker.client_limits import Usage
from mirrormq.clock import Clock
from mirrormq.cluster.orphan_restorer import OrphanRestorer
from mirrormq.connections.connection import Connection
from mirrormq.control.live_view import LiveView
from mirrormq.control.node_interface import LiveObjects
from mirrormq.errors import InternalError
from mirrormq.events.log_buffer import FEDERATION
from mirrormq.metadata.store import Unreadable
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.runtime.bridge_host import BridgeHost
from mirrormq.runtime.broker_links import BrokerLinks
from mirrormq.runtime.client_sockets import ClientSockets
from mirrormq.runtime.journal_opening import open_orphan_collector, recover
from mirrormq.runtime.listeners import Listener, listen
from mirrormq.runtime.log_output import Logger
from mirrormq.runtime.management_server import ManagementServer
from mirrormq.runtime.password_checker import PasswordChecker
from mirrormq.runtime.resource_watch import ResourceWatch, raise_file_handle_limit, total_memory_bytes
from mirrormq.runtime.scrub_task import ScrubTask
from mirrormq.runtime.turn_loop import TurnLoop
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import JournalFailed

if TYPE_CHECKING:
    from mirrormq.runtime.node import Node

FATAL = (JournalFailed, Unreadable)
"""Errors that stop the node: it can no longer keep its guarantees, or would diverge from its cluster."""

CLOSE_TIMEOUT_S = 3.0
"""Seconds that clients have to reply to connection.close when the application stops."""


def _unique_name() -> str:
    """Return sixteen random octets in RabbitMQ's format for generated names."""
    return base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


class Application:
    """One incarnation of the application: built, started, stopped once, discarded."""

    def __init__(self, node: Node, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation
        """Number of this run of the node, as the cluster counts incarnations."""
        self.settings = settings = node.settings
        self.metadata = node.metadata
        self.started_at_s = node.started_at_s
        self._log: Logger = node.log
        self.loop = self._loop = node.loop
        handles = raise_file_handle_limit() - limits.FILE_HANDLES_RESERVED
        most = settings.connection_max
        self.sockets = ClientSockets(handles if most is None else min(most, handles), self.later)
        self._servers: list[Listener] = []
        self.clock = Clock(int(time.time() * 1000))
        self.disk = LocalDisk()
        self.journal = Journal(self.disk, str(settings.data_directory / "journal"), make_envelope)
        recover(self.journal, self.metadata, node.lost_metadata, settings, self._log)
        self.orphan_collector = open_orphan_collector(settings, self.journal)
        total = total_memory_bytes()
        memory_limit = settings.memory_limit_bytes(total)
        budget = MemoryBudget(int(memory_limit * limits.HOT_BUDGET_WATERMARK_SHARE), node.limits.queues)
        self._passwords = PasswordChecker(self._loop, self.after_waiting)
        cluster = node.cluster_node
        outside = Environment(
            _unique_name, random.randrange, self._passwords.verify, cluster.send, cluster.congested,
            node.limits,
        )  # fmt: skip
        self.broker = Broker(settings, self.metadata, self.journal, self.clock, budget, outside)
        self.turns = TurnLoop(
            self._loop, time.time, self.broker, self.journal, self.disk.usage, self.sockets, self
        )
        self._links = BrokerLinks(self)
        self.orphan_return = OrphanRestorer(self.broker, self.orphan_collector.orphans)
        self.bridges = BridgeHost(self)
        self.live: LiveObjects = LiveView(self.broker, self.orphan_return, self.bridges.rows)
        self.resources = ResourceWatch(
            settings.name, self.broker.alarms, settings.data_directory, memory_limit,
            settings.disk_limit_bytes(total),
        )  # fmt: skip
        self.management = ManagementServer(self)

    async def start(self) -> None:
        """Start to serve clients. The plain AMQP port opens last, after everything that can fail."""
        settings = self.settings
        self.node.cluster_node.follow(self._links)
        self._share_alarms()
        self._share_usage()
        for address in settings.tls_listeners:
            self._servers += await listen(self, address, tls=True)
        await self.management.start()
        for address in settings.amqp_listeners:
            self._servers += await listen(self, address, tls=False)
        self.later(limits.HOUSEKEEPING_INTERVAL_S, self._housekeeping)
        ScrubTask(self).start()
        self._watch_resources()
        self.bridges.start()

    def suspend_listeners(self) -> None:
        """Accept no new clients; existing connections stay open."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def resume_listeners(self) -> None:
        """Accept new clients again on the configured addresses."""
        if not self._servers:
            for address in self.settings.tls_listeners:
                self._servers += await listen(self, address, tls=True)
            for address in self.settings.amqp_listeners:
                self._servers += await listen(self, address, tls=False)

    # -- turns ----------------------------------------------------------------------------------

    def read_clock(self) -> None:
        """Set the clock of the pure code to the present time."""
        self.turns.read_clock()

    def end_turn_soon(self) -> None:
        """Schedule the end of the turn, unless it is scheduled already."""
        self.turns.end_soon()

    def longest_turn_s(self, window_s: int) -> float:
        """Return the longest turn of the last seconds, from its first read to its output, without fsync."""
        return self.turns.times.longest_s(time.perf_counter(), window_s)

    def flush_links(self) -> None:
        """Write what the turn has sent to other nodes."""
        self.node.cluster_node.flush()

    def write_log_entries(self) -> None:
        """Write the log entries that the broker has collected."""
        for log_entry in self.broker.log_entries.take():
            self._log.log(log_entry.level, log_entry.text, category=log_entry.category, **log_entry.facts)

    def after_waiting(self) -> None:
        """Schedule a turn after an event that a connection waited for."""
        self.read_clock()
        self.end_turn_soon()

    def _housekeeping(self) -> None:
        try:
            busy = self.journal.housekeeping(limits.HOUSEKEEPING_BYTES) > 0
        except JournalFailed as failure:
            self.node.die(failure)
            return
        pause_s = limits.HOUSEKEEPING_BUSY_INTERVAL_S if busy else limits.HOUSEKEEPING_INTERVAL_S
        self.later(pause_s, self._housekeeping)

    def _watch_resources(self) -> None:
        self.check_resources()
        most_s = self.settings.memory_monitor_interval_ms / 1000
        self.later(self.resources.pause_s(most_s), self._watch_resources)

    def check_resources(self) -> None:
        """Compare memory and disk with their limits now, and log changes."""
        for line in self.resources.check():
            self._log.warning(line)
        self.end_turn_soon()

    def _share_alarms(self) -> None:
        """Share resource alarms with the other nodes: publishers are blocked while any node has an alarm."""
        controller, alarms = self.node.cluster_node.controller, self.broker.alarms

        def publish_own_alarms() -> None:
            controller.own_alarms = tuple(sorted(alarms.raised))

        alarms.listeners.append(publish_own_alarms)
        publish_own_alarms()
        self.apply_peer_alarms(controller.peer_alarms)

    def apply_peer_alarms(self, peer_rows: dict[str, tuple[str, ...]]) -> None:
        """Set the alarms of other nodes and log changes."""
        for line in () if self.turns.over else self.broker.alarms.update_peers(peer_rows):
            self._log.warning(line)
        self.end_turn_soon()

    def _share_usage(self) -> None:
        """Share limit usage with the other nodes: limits hold for all nodes of the cluster together."""
        controller, broker = self.node.cluster_node.controller, self.broker

        def peer_rows() -> list[Usage]:
            return [presence.usage for presence in controller.presences.values() if presence.serving]

        def measure() -> None:
            controller.own_usage = broker.client_limits.usage()

        def announce() -> None:
            if not self.turns.over:
                measure()
                controller.tell_presence()

        def grows() -> None:
            """Announce the usage when this turn ends; the new client is counted only then."""
            self._loop.call_soon(announce)

        def measure_regularly() -> None:
            measure()
            self.later(limits.USAGE_INTERVAL_S, measure_regularly)

        broker.client_limits.peer_usage = peer_rows
        broker.client_limits.usage_grows = grows
        measure_regularly()

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` once after `delay_s`, if the application still runs then."""
        self._loop.call_later(delay_s, lambda: None if self.turns.over else action())

    # -- faults ---------------------------------------------------------------------------------

    def fault(self, connection: Connection | None, error: Exception) -> bool:
        """Contain an unexpected error; return whether the node continues. No other code survives errors of
        our own.

        A failed disk stops the node, and so does metadata that the node cannot apply. Any other error is
        logged with its traceback and closes the connection in which it happened. The client receives
        INTERNAL_ERROR; all other connections continue.
        """
        if isinstance(error, FATAL):
            self.node.die(error)
            return False
        whose = f"connection {connection.name}" if connection is not None else "the end of a turn"
        self._log.error(f"unexpected error in {whose}:\n{''.join(traceback.format_exception(error))}")
        if connection is None or connection.finished:
            return True
        try:
            connection.fail(InternalError())
        except Exception:
            self._log.error(f"{whose}: closing it failed:\n{traceback.format_exc()}")
            connection.finish()
        return True

    def log_link(self, level: str, text: str) -> None:
        """Write a line about a link to the log."""
        self._log.log(level, text, category=FEDERATION)

    def warn(self, line: str) -> None:
        """Write a warning to the log."""
        self._log.warning(line)

    # -- operator commands -----------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the values of `mirrormqctl status`."""
        return self.node.status()

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""
        if absolute_bytes is None:
            total = self.settings.total_memory_override_bytes or total_memory_bytes()
            absolute_bytes = int(total * (relative or 0.0))
        self.resources.memory_limit_bytes = absolute_bytes
        self.check_resources()

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""
        if absolute_bytes is None:
            absolute_bytes = int(total_memory_bytes() * (relative or 0.0))
        self.resources.disk_limit_bytes = absolute_bytes
        self.check_resources()

    def stop_node(self) -> None:
        """Begin a graceful stop of the whole node."""
        self.node.stop()

    # -- stop -----------------------------------------------------------------------------------

    async def stop(self, *, at_once: bool = False, last: Callable[[], None] = lambda: None) -> None:
        """Close clients, listeners and files. With `at_once` the node delivers and confirms nothing more,
        because other nodes may have taken over already. Call `last` before the journal closes."""
        for server in self._servers:
            server.close()
        self.turns.leaving = at_once
        await self.bridges.stop(at_once=at_once or bool(self.node.exit_code))
        await self.management.stop()
        if not self.node.exit_code:
            await self._close_clients()
        await self._drop_clients()
        self.turns.stop()
        self.node.cluster_node.unfollow(self._links)
        self.broker.detach()
        if not self.node.exit_code:
            try:
                last()
                # After a failed disk (exit_code is set) nothing is written: the next start recovers from the
                # journal.
                self.orphan_collector.close()
                self.journal.close()
            except JournalFailed as failure:
                self.node.die(failure)

    async def _close_clients(self) -> None:
        self.read_clock()
        for connection in list(self.sockets.by_connection):
            connection.force_close("broker forced connection closure with reason 'shutdown'")
        self.end_turn_soon()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self.sockets.by_connection and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.01)

    async def _drop_clients(self) -> None:
        """Abort the sockets of clients that have not closed. The loop reports each closed socket a few
        moments later."""
        self.sockets.abort_all()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self.sockets.accepted and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0)
