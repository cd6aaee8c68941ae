"""Supervisor of the application: builds, starts and stops one incarnation after another for the cluster
controller.

An incarnation is built from disk and metadata only. Nothing of it remains when the next one starts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mirrormq.cluster.fork_index import LostFork
from mirrormq.cluster.lifecycle import STOPPED_BY_OPERATOR, TOO_FEW
from mirrormq.cluster.live_contents import LiveQueueContents
from mirrormq.cluster.orphan_collector import StoredContents
from mirrormq.control import definitions_import
from mirrormq.control.control_protocol import ControlError
from mirrormq.errors import ConfigurationError, DamageError, StartError
from mirrormq.metadata.cluster_name import naming_commands
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.envelope import make_envelope
from mirrormq.runtime.application import Application
from mirrormq.runtime.journal_opening import open_orphan_collector
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import JournalFailed

if TYPE_CHECKING:
    from mirrormq.runtime.node import Node

EXPECTED = (StartError, ControlError, DamageError, JournalFailed, OSError)
"""Errors that may prevent a start without a fault in this code."""


LOST_TO_OTHER_SIDE = "another side of the cluster has won"


class ApplicationSupervisor:
    """Owner of the running application. Implements `cluster.controller.ApplicationHost`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.application: Application | None = None
        """The application that serves clients now, if one runs."""
        self.failure: Exception | None = None
        """Error that made the last start fail."""
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def ending(self) -> bool:
        """Whether an incarnation is stopping."""
        return self._stopping is not None

    def start(self, incarnation: int) -> None:
        """Start an incarnation of the application in the background."""
        self._starting = self._node.loop.create_task(self._begin(incarnation))

    async def _begin(self, incarnation: int) -> None:
        node, settings = self._node, self._node.settings
        application: Application | None = None
        try:
            application = Application(node, incarnation)
            if node.cluster_node.controller.apart:
                _record_fork_indexes(application)
            for command in naming_commands(node.metadata.state, settings.name, settings.cluster_name):
                node.metadata.write(command)
            if settings.load_definitions is not None:
                self._load_definitions(settings.load_definitions)
                await node.settled()
            await application.start()
        except Exception as error:
            if application is not None:
                await application.stop(at_once=True)
            self._failed(error)
        else:
            self.application = application
            where = ", ".join(map(str, settings.amqp_listeners))
            node.log.info(f"node {settings.name} serves clients at {where}", incarnation=incarnation)
        self._starting = None
        node.cluster_changed()

    def _failed(self, error: Exception) -> None:
        self.failure = error
        if not isinstance(error, EXPECTED):
            self._node.log.error("".join(traceback.format_exception(error)))
        self._node.cluster_node.controller.want(False)

    def _load_definitions(self, path: Path) -> None:
        settings, metadata = self._node.settings, self._node.metadata
        try:
            content = path.read_bytes()
            document = json.loads(content)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The definitions in {path} cannot be read: {error}") from error
        if settings.skip_unchanged_definitions and definitions_import.is_unchanged(metadata.state, content):
            self._node.log.info(f"skipped the import of {path}: the definitions are unchanged")
            return
        try:
            options = definitions_import.ImportOptions(settings.definitions_all_or_nothing)
            report = definitions_import.import_definitions(metadata, document, settings, options)
        except ControlError as error:
            raise ConfigurationError(f"The definitions in {path} cannot be imported: {error.text}") from error
        # Written last, so that a node that fails during the import imports again at its next start.
        metadata.write(definitions_import.remember(content))
        for entry in report.skipped:
            self._node.log.warning(
                f"definitions in {path}: skipped {entry.kind} '{entry.name}': {entry.reason}; {entry.remedy}"
            )
        self._node.log.info(f"imported the definitions in {path}", skipped=len(report.skipped))

    def stop(self, reason: str) -> None:
        """Close clients and files. The process, its metadata and its control socket remain."""
        done = self._node.cluster_node.controller.serving.stopped
        self._stopping = self._node.loop.create_task(self.end(reason, done))

    def discard_state(self, winner: MetadataState, common: int, done: Callable[[], None]) -> None:
        """Stop after this node's side of a partition lost. Messages that only this side holds are set
        aside first."""
        self._stopping = self._node.loop.create_task(self._collect_orphans_and_end(winner, common, done))

    async def _collect_orphans_and_end(
        self, winner: MetadataState, common: int, done: Callable[[], None]
    ) -> None:
        node = self._node
        if self._starting is not None:
            await asyncio.wait({self._starting})
        controller = node.cluster_node.controller
        at_ms = int(time.time() * 1000)
        mine = node.cluster_node.member.state_at_the_end()
        fork = LostFork(mine, winner, common, controller.companions, at_ms)
        application = self.application
        if application is None:
            orphan_count, damaged_count = self._set_aside_on_disk(fork)
        else:
            collector = application.orphan_collector
            orphan_count = collector.set_aside(LiveQueueContents(application.broker), fork)
            damaged_count = collector.damaged_count
        if orphan_count:
            node.log.warning(f"set aside {orphan_count} messages as orphans: only the losing side held them")
        if damaged_count:
            node.log.error(f"{damaged_count} messages of the losing side are damaged and not set aside")

        def let_go() -> None:
            if application is not None:
                application.orphan_collector.let_go(fork)

        await self.end(LOST_TO_OTHER_SIDE, done, let_go)

    def _set_aside_on_disk(self, fork: LostFork) -> tuple[int, int]:
        settings = self._node.settings
        journal = Journal(LocalDisk(), str(settings.data_directory / "journal"), make_envelope)
        journal.open()
        orphan_collector = open_orphan_collector(settings, journal)
        orphan_count = orphan_collector.set_aside(StoredContents(), fork)
        orphan_collector.let_go(fork)
        orphan_collector.close()
        journal.close()
        return orphan_count, orphan_collector.damaged_count

    async def end(
        self,
        reason: str,
        done: Callable[[], None] = lambda: None,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        """End the running incarnation, if there is one. Call `last` before its journal closes, and `done`
        afterwards."""
        node = self._node
        if self._starting is not None:
            await asyncio.wait({self._starting})
        application, self.application = self.application, None
        if application is not None:
            if reason == TOO_FEW:
                node.log.warning("Cluster minority/secondary status detected - awaiting recovery")
            await application.stop(at_once=reason != STOPPED_BY_OPERATOR, last=last)
            node.log.info(f"node {node.settings.name} stopped serving clients: {reason}")
            del application
            gc.collect()
        self._stopping = None
        done()
        node.cluster_changed()

    @property
    def clients(self) -> int:
        """Number of open client connections."""
        return 0 if self.application is None else len(self.application.broker.connections)

    def partition_started(self) -> None:
        """Write the fork indexes: a node that may continue without this one is out of sight."""
        if self.application is not None:
            _record_fork_indexes(self.application)

    def partition_ended(self) -> None:
        """Drop the fork indexes: all nodes are connected and share one metadata history."""
        if self.application is not None:
            self.application.orphan_collector.partition_ended()


def _record_fork_indexes(application: Application) -> None:
    application.orphan_collector.partition_started(LiveQueueContents(application.broker))
