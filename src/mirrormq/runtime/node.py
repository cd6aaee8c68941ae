"""One node: opens the files, builds the broker, listens, and turns the crank.

A turn is everything between two waits of the loop: sockets hand their bytes to connections, then
`_end_turn` lets the broker deal out, commit and confirm, and writes to the sockets. The fsync is
done right here on the loop: in a helper thread its tail latency is worse by two orders of magnitude
(docs/decisions has the numbers).
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from mirrormq import limits
from mirrormq.auth.passwords import DEFAULT_ALGORITHM, hash_password, salt_bytes
from mirrormq.broker.broker import Broker, Outside
from mirrormq.broker.events import EXCHANGE as EVENT_EXCHANGE
from mirrormq.clock import Clock
from mirrormq.config.settings import Settings
from mirrormq.connections.connection import Connection
from mirrormq.control import definitions
from mirrormq.control.live import BrokerView
from mirrormq.control.node import LiveObjects
from mirrormq.errors import ConfigurationError, DamageError, InternalError
from mirrormq.metadata import commands, records
from mirrormq.metadata.store import Defaults, MetadataStore
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.paged import HotBudget
from mirrormq.runtime import logs
from mirrormq.runtime.client_sockets import ClientSockets
from mirrormq.runtime.control_server import ControlServer
from mirrormq.runtime.listeners import Listener, listen
from mirrormq.runtime.management_server import ManagementServer
from mirrormq.runtime.metadata_files import MetadataFiles
from mirrormq.runtime.opening import recover
from mirrormq.runtime.passwords import PasswordChecker
from mirrormq.runtime.resources import ResourceWatch, raise_file_handle_limit, total_memory_bytes
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.errors import JournalFailed
from mirrormq.storage.journal import Journal
from mirrormq.storage.metadata_log import MetadataLog

STOP_TIMEOUT_S = 3.0
"""How long clients may take to answer connection.close when the node stops."""


def _unique_name() -> str:
    """Sixteen random octets as RabbitMQ writes them in generated names."""
    return base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


class Node:
    """A running node."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.settings = settings
        self.serving = False
        self.started_at_s = time.time()
        self._loop = loop
        self._log = logs.logger(settings.log)
        handles = raise_file_handle_limit() - limits.FILE_HANDLES_RESERVED
        most = settings.connection_max
        self.sockets = ClientSockets(handles if most is None else min(most, handles), loop.call_later)
        self._servers: list[Listener] = []
        self._turn_scheduled = False
        self.input_seen = False
        """A socket has handed over bytes since the last turn."""
        self._postponed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._stopped = asyncio.Event()
        self.exit_code = 0
        self.clock = Clock(int(time.time() * 1000))
        data = settings.data_directory
        data.mkdir(parents=True, exist_ok=True)
        self._files = MetadataFiles(MetadataLog(LocalDisk(), str(data / "metadata")), self._die)
        self.metadata = self._open_metadata()
        self.journal = Journal(LocalDisk(), str(data / "journal"), make_envelope)
        recover(self.journal, self.metadata, self._files.dropped, settings, self._log)
        total = total_memory_bytes()
        memory_limit = settings.memory_limit_bytes(total)
        budget = HotBudget(int(memory_limit * limits.HOT_BUDGET_WATERMARK_SHARE))
        self._passwords = PasswordChecker(loop, self._after_waiting)
        outside = Outside(_unique_name, random.randrange, self._passwords.verify)
        self.broker = Broker(settings, self.metadata, self.journal, self.clock, budget, outside)
        self.live: LiveObjects = BrokerView(self.broker)
        self.resources = ResourceWatch(
            self.broker.alarms, data, memory_limit, settings.disk_limit_bytes(total)
        )
        self._control = ControlServer(self, self._after_waiting)
        self._management = ManagementServer(self)

    # -- opening --------------------------------------------------------------------------------

    def _open_metadata(self) -> MetadataStore:
        state, entries = self._files.open()
        store = MetadataStore(state, self._files)
        settings = self.settings
        salt = os.urandom(salt_bytes())
        user = None
        if settings.default_user and not state.users:
            user = records.User(
                settings.default_user,
                hash_password(settings.default_pass.encode(), salt),
                DEFAULT_ALGORITHM,
                list(settings.default_user_tags),
            )
        rights = settings.default_permissions
        store.boot(
            entries, Defaults(user, settings.default_vhost, rights.configure, rights.write, rights.read)
        )
        if settings.default_vhost in state.vhosts:
            events = records.Exchange(settings.default_vhost, EVENT_EXCHANGE, "topic", True, False, True)
            store.write(commands.PutExchange(events))
        return store

    async def start(self) -> None:
        """Begin to serve clients; the plain port opens last, when nothing can fail any more."""
        problem = await self._control.start()
        if problem is not None:
            self._log.warning(problem)
        for warning in self.settings.warnings:
            self._log.warning(warning)
        if self.settings.load_definitions is not None:
            self._load_definitions(self.settings.load_definitions)
        for address in self.settings.tls_listeners:
            self._servers += await listen(self, address, tls=True)
        if self.settings.management_listener is not None:
            await self._management.start(self.settings.management_listener)
        for address in self.settings.amqp_listeners:
            self._servers += await listen(self, address, tls=False)
        self.serving = True
        self._loop.call_later(limits.HOUSEKEEPING_INTERVAL_S, self._housekeeping)
        self._watch_resources()
        self._log.info(
            f"node {self.settings.name} serves clients at {', '.join(map(str, self.settings.amqp_listeners))}"
        )

    def _load_definitions(self, path: Path) -> None:
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The definitions in {path} cannot be read: {error}") from error
        definitions.import_definitions(self.metadata, document, self.settings.name)

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
        try:
            if self.broker.turn(self._commit_now()):
                self.end_turn_soon()
        except Exception as error:
            self.fault(None, error)
            if isinstance(error, JournalFailed):
                return
            self.end_turn_soon()
        self.sockets.write(self.broker.writing)
        self.sockets.wake_rested()
        if self.sockets.resume():
            self.end_turn_soon()
        if self.broker.warnings:
            self._write_warnings()
        self._arm_timer()

    def _commit_now(self) -> bool:
        """Group commit: while publishers keep sending, look at the sockets a few times more, so that
        one fsync serves them all. A publisher that waits for its confirm does not wait for others."""
        keep_collecting = self.journal.needs_sync and self.input_seen
        self.input_seen = False
        if keep_collecting and self._postponed < limits.COMMIT_POSTPONEMENTS:
            self._postponed += 1
            self.end_turn_soon()
            return False
        self._postponed = 0
        return True

    def _write_warnings(self) -> None:
        for warning in self.broker.warnings:
            self._log.warning(warning)
        self.broker.warnings.clear()

    def _after_waiting(self) -> None:
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
        self.read_clock()
        try:
            self.clock.run_due()
        except Exception as error:
            self.fault(None, error)
        self.end_turn_soon()

    def _housekeeping(self) -> None:
        try:
            self.journal.housekeeping(limits.HOUSEKEEPING_BYTES)
        except JournalFailed as failure:
            self._die(failure)
            return
        self._loop.call_later(limits.HOUSEKEEPING_INTERVAL_S, self._housekeeping)

    def _watch_resources(self) -> None:
        for line in self.resources.look():
            self._log.warning(line)
        self.end_turn_soon()
        self._loop.call_later(self.settings.memory_monitor_interval_ms / 1000, self._watch_resources)

    def fault(self, connection: Connection | None, error: Exception) -> None:
        """Something of ours has failed that should not have: the one place where that is survived.

        A failed disk stops the node. Anything else costs the connection that it happened to, which is
        told so, and is written down with its traceback; the others go on.
        """
        if isinstance(error, JournalFailed):
            self._die(error)
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

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something once, after a while."""
        self._loop.call_later(delay_s, action)

    def _die(self, failure: JournalFailed) -> None:
        """The disk has failed us: nothing may be confirmed from now on, so nothing is."""
        if self.exit_code:
            return
        self._log.critical(f"the node stops because its journal failed: {failure}")
        self.sockets.abort_all()
        self.exit_code = 1
        self._stopped.set()

    def warn(self, line: str) -> None:
        """A line for the log."""
        self._log.warning(line)

    # -- what the operator sees and says --------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The values of `mirrormqctl status`."""
        from mirrormq.runtime.status import status

        return status(self)

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""
        if absolute_bytes is None:
            total = self.settings.total_memory_override_bytes or total_memory_bytes()
            absolute_bytes = int(total * (relative or 0.0))
        self.resources.memory_limit_bytes = absolute_bytes
        self._look_now()

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""
        if absolute_bytes is None:
            absolute_bytes = int(total_memory_bytes() * (relative or 0.0))
        self.resources.disk_limit_bytes = absolute_bytes
        self._look_now()

    def _look_now(self) -> None:
        for line in self.resources.look():
            self._log.warning(line)
        self.end_turn_soon()

    # -- the end --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin a graceful stop."""
        self._stopped.set()

    async def run(self) -> int:
        """Serve until told to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop)
        await self.start()
        await self._stopped.wait()
        self.serving = False
        for server in self._servers:
            server.close()
        await self._management.stop()
        if not self.exit_code:
            await self._say_goodbye()
            try:
                self.journal.close()
                self._files.close()
            except JournalFailed as failure:
                self._die(failure)
        await self._control.stop()
        self._log.info(f"node {self.settings.name} has stopped")
        return self.exit_code

    async def _say_goodbye(self) -> None:
        self.read_clock()
        for connection in list(self.sockets.by_connection):
            connection.force_close("broker forced connection closure with reason 'shutdown'")
        self.end_turn_soon()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self.sockets.by_connection and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.01)
        self.sockets.abort_all()
        await asyncio.sleep(0)


def _tune_collector() -> None:
    """Messages come by the hundred thousand and hold no cycles: look for cycles seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(limits.COLLECTOR_THRESHOLD, 20, 100)


def run(settings: Settings) -> int:
    """Run one node in the foreground; returns the exit code."""
    uvloop.install()

    async def main() -> int:
        _tune_collector()
        try:
            node = Node(settings, asyncio.get_running_loop())
        except (DamageError, JournalFailed, OSError) as error:
            logs.logger(settings.log).critical(f"the node cannot start: {error}")
            return 1
        return await node.run()

    return asyncio.run(main())
