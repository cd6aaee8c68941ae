"""One node, as a process: what is there whether or not it serves clients.

The shell is the settings, the metadata, the control socket and the signals. What serves clients is an
`Application`, which the shell makes, stops and makes again: when the operator says so (`stop_app`,
`start_app`), and when the cluster does. All of that goes one road, `start_app` and `stop_app` below, one
step at a time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from mirrormq import limits
from mirrormq.config.settings import Settings
from mirrormq.control import definitions
from mirrormq.control.node import AppState, LiveObjects
from mirrormq.errors import ConfigurationError, DamageError
from mirrormq.metadata import commands
from mirrormq.runtime import logs
from mirrormq.runtime.application import Application
from mirrormq.runtime.control_server import ControlServer
from mirrormq.runtime.metadata_opening import open_member
from mirrormq.runtime.status import status
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.errors import JournalFailed
from mirrormq.storage.recovery import Dropped


class Node:
    """A running process. Implements `control.node.Node`."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.settings = settings
        self.loop = loop
        self.log: Any = logs.logger(settings.log)
        self.started_at_s = time.time()
        self.exit_code = 0
        self.application: Application | None = None
        self.app_state = AppState.STARTING
        self._changing = asyncio.Lock()
        self._stopped = asyncio.Event()
        data = settings.data_directory
        data.mkdir(parents=True, exist_ok=True)
        self._files = ConsensusLog(LocalDisk(), str(data / "metadata"), self.die)
        self.member = open_member(self._files, settings)
        self.metadata = self.member.metadata
        self._control = ControlServer(self, self._after_request)

    @property
    def lost_metadata(self) -> Sequence[Dropped]:
        """What of the metadata on disk could not be read."""
        return self._files.dropped

    # -- the application ------------------------------------------------------------------------

    async def start_app(self) -> None:
        """Serve clients; returns when they can come. Does nothing if they can already."""
        async with self._changing:
            if self.application is not None or self._stopped.is_set():
                return
            self.app_state = AppState.STARTING
            try:
                self.metadata.write(commands.DropTransient())
                await self._begin(Application(self))
            except BaseException:
                self.app_state = AppState.STOPPED
                raise

    async def _begin(self, application: Application) -> None:
        try:
            if self.settings.load_definitions is not None:
                self._load_definitions(self.settings.load_definitions)
            await application.start()
        except BaseException:
            await application.stop()
            raise
        self.application = application
        self.app_state = AppState.RUNNING
        where = ", ".join(map(str, self.settings.amqp_listeners))
        self.log.info(f"node {self.settings.name} serves clients at {where}")

    async def stop_app(self, *, at_once: bool = False) -> None:
        """Close clients and files; the process, its metadata and its control socket stay."""
        async with self._changing:
            application = self.application
            if application is None:
                return
            self.app_state = AppState.STOPPING
            try:
                await application.stop(at_once=at_once)
            finally:
                self.application = None
                self.app_state = AppState.STOPPED
            gc.collect()
            self.log.info(f"node {self.settings.name} serves no clients any more")

    def _load_definitions(self, path: Path) -> None:
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The definitions in {path} cannot be read: {error}") from error
        definitions.import_definitions(self.metadata, document, self.settings.name)

    def _after_request(self) -> None:
        """A verb can wake queues."""
        if self.application is not None:
            self.application.after_waiting()

    # -- what the operator sees and says --------------------------------------------------------

    @property
    def serving(self) -> bool:
        """Can clients come?"""
        return self.app_state is AppState.RUNNING

    @property
    def running(self) -> Application:
        """The application; only verbs that need it ask, and they are refused while there is none."""
        assert self.application is not None
        return self.application

    @property
    def live(self) -> LiveObjects:
        return self.running.live

    def status(self) -> dict[str, Any]:
        """The values of `mirrormqctl status`."""
        return status(self.running)

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""
        self.running.set_memory_watermark(relative, absolute_bytes)

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""
        self.running.set_disk_free_limit(relative, absolute_bytes)

    # -- the end --------------------------------------------------------------------------------

    def die(self, failure: JournalFailed) -> None:
        """The disk has failed us: nothing may be confirmed from now on, so nothing is."""
        if self.exit_code:
            return
        self.log.critical(f"the node stops because its journal failed: {failure}")
        if self.application is not None:
            self.application.sockets.abort_all()
        self.exit_code = 1
        self._stopped.set()

    def stop(self) -> None:
        """Begin a graceful stop."""
        self._stopped.set()

    async def run(self) -> int:
        """Serve until told to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self.stop)
        problem = await self._control.start()
        if problem is not None:
            self.log.warning(problem)
        for warning in self.settings.warnings:
            self.log.warning(warning)
        try:
            await self.start_app()
            await self._stopped.wait()
            await self.stop_app()
        finally:
            await self._control.stop()
        if not self.exit_code:
            try:
                self._files.close()
            except JournalFailed as failure:
                self.die(failure)
        self.log.info(f"node {self.settings.name} has stopped")
        return self.exit_code


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
            return await node.run()
        except (DamageError, JournalFailed, OSError) as error:
            logs.logger(settings.log).critical(f"the node cannot start: {error}")
            return 1

    return asyncio.run(main())
