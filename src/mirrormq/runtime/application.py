"""What serves clients: journal, broker, listeners, management, and the crank that turns them.

RabbitMQ calls this part of a node the application, and so do we: it is stopped and started again inside
the process (`stop_app`, `start_app`, a node that lost its quorum, a node that was declared lost), and each
time all of it is built anew from the disk. What outlives it is in `runtime/node.py`.

A turn is everything between two waits of the loop: sockets hand their bytes to connections, then
`_end_turn` lets the broker deal out, commit and confirm, and writes to the sockets. The fsync is
done right here on the loop: in a helper thread its tail latency is worse by two orders of magnitude
(docs/decisions has the numbers).
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
from mirrormq.broker.orphan_restorer import OrphanRestorer
from mirrormq.clock import Clock
from mirrormq.connections.connection import Connection
from mirrormq.control.live_view import LiveView
from mirrormq.control.node_interface import LiveObjects
from mirrormq.errors import InternalError
from mirrormq.metadata.store import Unreadable
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.runtime.broker_links import BrokerLinks
from mirrormq.runtime.client_sockets import ClientSockets
from mirrormq.runtime.journal_opening import open_orphan_collector, recover
from mirrormq.runtime.listeners import Listener, listen
from mirrormq.runtime.management_server import ManagementServer
from mirrormq.runtime.password_checker import PasswordChecker
from mirrormq.runtime.resource_watch import ResourceWatch, raise_file_handle_limit, total_memory_bytes
from mirrormq.runtime.scrub_task import ScrubTask
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import JournalFailed

if TYPE_CHECKING:
    from mirrormq.runtime.node import Node

FATAL = (JournalFailed, Unreadable)
"""What a node does not survive: it could not keep its promises, or would differ from its cluster."""

GOODBYE_TIMEOUT_S = 3.0
"""How long clients may take to answer connection.close when the application stops."""


def _unique_name() -> str:
    """Sixteen random octets as RabbitMQ writes them in generated names."""
    return base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


class Application:
    """One life of a node: made, started, stopped, thrown away."""

    def __init__(self, node: Node, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation
        """Which life of the node this is, as its cluster counts them."""
        self.settings = settings = node.settings
        self.metadata = node.metadata
        self.started_at_s = node.started_at_s
        self._log: Any = node.log
        self._loop = node.loop
        handles = raise_file_handle_limit() - limits.FILE_HANDLES_RESERVED
        most = settings.connection_max
        self.sockets = ClientSockets(handles if most is None else min(most, handles), self.later)
        self._servers: list[Listener] = []
        self._turn_scheduled = False
        self.input_seen = False
        """A socket has handed over bytes since the last turn."""
        self._postponed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._over = False
        """Nothing is done any more, whoever still calls."""
        self._leaving = False
        """Clients are told to go, and nothing else."""
        self.clock = Clock(int(time.time() * 1000))
        self.disk = LocalDisk()
        self.journal = Journal(self.disk, str(settings.data_directory / "journal"), make_envelope)
        recover(self.journal, self.metadata, node.lost_metadata, settings, self._log)
        self.orphan_collector = open_orphan_collector(settings, self.journal)
        total = total_memory_bytes()
        memory_limit = settings.memory_limit_bytes(total)
        budget = MemoryBudget(int(memory_limit * limits.HOT_BUDGET_WATERMARK_SHARE))
        self._passwords = PasswordChecker(self._loop, self.after_waiting)
        cluster = node.cluster_node
        outside = Environment(
            _unique_name, random.randrange, self._passwords.verify, cluster.send, cluster.congested
        )
        self.broker = Broker(settings, self.metadata, self.journal, self.clock, budget, outside)
        self._links = BrokerLinks(self)
        self.orphan_return = OrphanRestorer(self.broker, self.orphan_collector.orphans)
        self.live: LiveObjects = LiveView(self.broker, self.orphan_return)
        self.resources = ResourceWatch(
            settings.name, self.broker.alarms, settings.data_directory, memory_limit,
            settings.disk_limit_bytes(total),
        )  # fmt: skip
        self.management = ManagementServer(self)

    async def start(self) -> None:
        """Begin to serve clients; the plain port opens last, when nothing can fail any more."""
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

    def suspend_listeners(self) -> None:
        """Let no new clients in; those that are there stay."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def resume_listeners(self) -> None:
        """Let clients in again, where they were."""
        if not self._servers:
            for address in self.settings.tls_listeners:
                self._servers += await listen(self, address, tls=True)
            for address in self.settings.amqp_listeners:
                self._servers += await listen(self, address, tls=False)

    # -- turns ----------------------------------------------------------------------------------

    def read_clock(self) -> None:
        """Let pure code know what time it is."""
        self.clock.now_ms = int(time.time() * 1000)

    def end_turn_soon(self) -> None:
        """Something was done that the end of the turn must finish."""
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_scheduled = False
        if self._over:
            return
        if self._leaving:
            self.sockets.write(self.broker.writing)
            return
        try:
            spoke = self.broker.begin_turn()
            if self.broker.finish_turn(self._commit_now(spoke)):
                self.end_turn_soon()
            self.node.cluster_node.flush()
        except Exception as error:
            self.fault(None, error)
            if isinstance(error, FATAL):
                return
            self.end_turn_soon()
        self.sockets.write(self.broker.writing)
        self.sockets.wake_rested()
        if self.sockets.resume():
            self.end_turn_soon()
        if self.broker.log_entries:
            self._write_log_entries()
        self._arm_timer()

    def _commit_now(self, spoke: bool) -> bool:
        """Group commit: while publishers keep sending, look at the sockets a few times more, so that
        one fsync serves them all. A publisher that waits for its confirm does not wait for others. And
        what was said to other nodes leaves before this one waits for its disk, so that theirs work
        meanwhile: sockets are written to between two turns."""
        keep_collecting = self.journal.needs_sync and (self.input_seen or spoke)
        self.input_seen = False
        if keep_collecting and self._postponed < limits.COMMIT_POSTPONEMENTS:
            self._postponed += 1
            self.end_turn_soon()
            return False
        self._postponed = 0
        return True

    def _write_log_entries(self) -> None:
        for log_entry in self.broker.log_entries.take():
            getattr(self._log, log_entry.level)(
                log_entry.text, category=log_entry.category, **log_entry.facts
            )

    def after_waiting(self) -> None:
        """Something that a connection waited for has happened."""
        self.read_clock()
        self.end_turn_soon()

    def _arm_timer(self) -> None:
        due = self.clock.next_ms
        if due is None or (self._timer is not None and self._timer_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due
        delay_s = max(0.0, due / 1000 - time.time())
        self._timer = self._loop.call_later(delay_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        if self._over:
            return
        self.read_clock()
        try:
            self.clock.run_due()
        except Exception as error:
            self.fault(None, error)
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
        self.look_at_resources()
        most_s = self.settings.memory_monitor_interval_ms / 1000
        self.later(self.resources.pause_s(most_s), self._watch_resources)

    def look_at_resources(self) -> None:
        """Compare memory and disk with their limits now."""
        for line in self.resources.look():
            self._log.warning(line)
        self.end_turn_soon()

    def _share_alarms(self) -> None:
        """Publishers rest as long as any node is short of something: hear of the others, and tell them."""
        controller, alarms = self.node.cluster_node.controller, self.broker.alarms

        def tell() -> None:
            controller.own_alarms = tuple(sorted(alarms.raised))

        def hear(peer_rows: dict[str, tuple[str, ...]]) -> None:
            for line in () if self._over else alarms.hear(peer_rows):
                self._log.warning(line)
            self.end_turn_soon()

        alarms.listeners.append(tell)
        controller.alarms_heard = hear
        tell()
        hear(controller.peer_alarms)

    def _share_usage(self) -> None:
        """Limits hold for all nodes together: say what is used here, and hear what is used elsewhere."""
        controller, broker = self.node.cluster_node.controller, self.broker

        def peer_rows() -> list[Usage]:
            return [presence.usage for presence in controller.presences.values() if presence.serving]

        def look() -> None:
            controller.own_usage = broker.client_limits.usage()

        def tell() -> None:
            if not self._over:
                look()
                controller.tell_presence()

        def grows() -> None:
            """Whoever is let in is counted when this turn is over."""
            self._loop.call_soon(tell)

        def look_again() -> None:
            look()
            self.later(limits.USAGE_INTERVAL_S, look_again)

        broker.client_limits.peer_usage = peer_rows
        broker.client_limits.usage_grows = grows
        look_again()

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something once, after a while, if the application still runs then."""
        self._loop.call_later(delay_s, lambda: None if self._over else action())

    # -- faults ---------------------------------------------------------------------------------

    def fault(self, connection: Connection | None, error: Exception) -> None:
        """Something of ours has failed that should not have: the one place where that is survived.

        A failed disk stops the node, and so does metadata that it cannot follow. Anything else costs the
        connection that it happened to, which is told so, and is written down with its traceback; the others
        go on.
        """
        if isinstance(error, FATAL):
            self.node.die(error)
            return
        whose = f"connection {connection.name}" if connection is not None else "the end of a turn"
        self._log.error(f"an unexpected error in {whose}:\n{''.join(traceback.format_exception(error))}")
        if connection is None or connection.finished:
            return
        try:
            connection.fail(InternalError())
        except Exception:
            self._log.error(f"{whose} could not be closed properly:\n{traceback.format_exc()}")
            connection.finish()

    def warn(self, line: str) -> None:
        """A line for the log."""
        self._log.warning(line)

    # -- what the operator sees and says ---------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The values of `mirrormqctl status`."""
        return self.node.status()

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""
        if absolute_bytes is None:
            total = self.settings.total_memory_override_bytes or total_memory_bytes()
            absolute_bytes = int(total * (relative or 0.0))
        self.resources.memory_limit_bytes = absolute_bytes
        self.look_at_resources()

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""
        if absolute_bytes is None:
            absolute_bytes = int(total_memory_bytes() * (relative or 0.0))
        self.resources.disk_limit_bytes = absolute_bytes
        self.look_at_resources()

    def stop_node(self) -> None:
        """Begin a graceful stop of the whole node."""
        self.node.stop()

    # -- the end --------------------------------------------------------------------------------

    async def stop(self, *, at_once: bool = False, last: Callable[[], None] = lambda: None) -> None:
        """Close clients, listeners and files. `at_once`: nothing is delivered or confirmed any more, because
        others may go on without this node already. `last` is called before the journal is closed."""
        for server in self._servers:
            server.close()
        self._leaving = at_once
        await self.management.stop()
        if not self.node.exit_code:
            await self._say_goodbye()
        await self._drop_clients()
        self._over = True
        self.node.cluster_node.unfollow(self._links)
        self.broker.detach()
        if self._timer is not None:
            self._timer.cancel()
        if not self.node.exit_code:
            try:
                last()
                self.orphan_collector.close()
                self.journal.close()
            except JournalFailed as failure:
                self.node.die(failure)

    async def _say_goodbye(self) -> None:
        self.read_clock()
        for connection in list(self.sockets.by_connection):
            connection.force_close("broker forced connection closure with reason 'shutdown'")
        self.end_turn_soon()
        deadline = time.monotonic() + GOODBYE_TIMEOUT_S
        while self.sockets.by_connection and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.01)

    async def _drop_clients(self) -> None:
        """Those who did not leave; the loop tells their connections a few moments later."""
        self.sockets.abort_all()
        deadline = time.monotonic() + GOODBYE_TIMEOUT_S
        while self.sockets.accepted and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0)
