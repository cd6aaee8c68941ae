"""The lives of a node's application: made, started, stopped, one after the other, as the steward says.

A life is built from what is on disk and in the metadata, and nothing of it is left when the next one begins.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mirrormq.broker.live_contents import LiveQueueContents
from mirrormq.cluster.lifecycle import STOPPED_BY_OPERATOR, TOO_FEW
from mirrormq.cluster.orphan_collector import OrphanLoss, StoredContents
from mirrormq.control import definitions_document
from mirrormq.control.control_protocol import ControlError
from mirrormq.errors import ConfigurationError, DamageError, StartError
from mirrormq.metadata.commands import PutGlobalParameter
from mirrormq.metadata.records import GlobalParameter
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
"""Why a life may fail to begin without a mistake of ours."""


IMPORTED_DEFINITIONS = "imported_definition_hash_value"
"""RabbitMQ's global parameter with the digest of the definitions that were imported last."""

LOST_TO_OTHERS = "another side of the cluster has won"


class ApplicationSupervisor:
    """Implements `cluster.controller.ApplicationHost`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.application: Application | None = None
        """What serves clients now."""
        self.failure: Exception | None = None
        """Why the last life did not begin."""
        self._beginning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def ending(self) -> bool:
        """Is a life coming to its end?"""
        return self._ending is not None

    def start(self, incarnation: int) -> None:
        """Begin to serve."""
        self._beginning = self._node.loop.create_task(self._begin(incarnation))

    async def _begin(self, incarnation: int) -> None:
        node, settings = self._node, self._node.settings
        application: Application | None = None
        try:
            application = Application(node, incarnation)
            if node.cluster_node.controller.apart:
                _part(application)
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
        self._beginning = None
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
        digest = hashlib.sha256(content).hexdigest()
        imported = metadata.state.global_parameters.get(IMPORTED_DEFINITIONS)
        if settings.skip_unchanged_definitions and imported is not None and imported.value == digest:
            self._node.log.info(f"the definitions in {path} are unchanged and are not imported again")
            return
        try:
            definitions_document.import_definitions(metadata, document, settings)
        except ControlError as error:
            raise ConfigurationError(f"The definitions in {path} cannot be imported: {error.text}") from error
        # Last: a node that dies during the import imports again at its next start.
        metadata.write(PutGlobalParameter(GlobalParameter(IMPORTED_DEFINITIONS, digest)))
        self._node.log.info(f"the definitions in {path} were imported")

    def stop(self, reason: str) -> None:
        """Close clients and files; the process, its metadata and its control socket stay."""
        done = self._node.cluster_node.controller.serving.stopped
        self._ending = self._node.loop.create_task(self.end(reason, done))

    def discard_state(self, winner: MetadataState, done: Callable[[], None]) -> None:
        """This node's side has lost: what only it has is set aside before anything else can happen."""
        self._ending = self._node.loop.create_task(self._give_up(winner, done))

    async def _give_up(self, winner: MetadataState, done: Callable[[], None]) -> None:
        node = self._node
        if self._beginning is not None:
            await asyncio.wait({self._beginning})
        controller = node.cluster_node.controller
        at_ms = int(time.time() * 1000)
        loss = OrphanLoss(node.metadata.state, winner, controller.companions, at_ms)
        application = self.application
        if application is None:
            kept = self._set_aside_on_disk(loss)
        else:
            kept = application.orphan_collector.set_aside(LiveQueueContents(application.broker), loss)
        if kept:
            node.log.warning(f"{kept} messages that only this side had were set aside as orphans")

        def let_go() -> None:
            if application is not None:
                application.orphan_collector.let_go(loss)

        await self.end(LOST_TO_OTHERS, done, let_go)

    def _set_aside_on_disk(self, loss: OrphanLoss) -> int:
        settings = self._node.settings
        journal = Journal(LocalDisk(), str(settings.data_directory / "journal"), make_envelope)
        journal.open()
        orphan_collector = open_orphan_collector(settings, journal)
        kept = orphan_collector.set_aside(StoredContents(), loss)
        orphan_collector.let_go(loss)
        orphan_collector.close()
        journal.close()
        return kept

    async def end(
        self,
        reason: str,
        done: Callable[[], None] = lambda: None,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        """End the present life, if there is one."""
        node = self._node
        if self._beginning is not None:
            await asyncio.wait({self._beginning})
        application, self.application = self.application, None
        if application is not None:
            if reason == TOO_FEW:
                node.log.warning("Cluster minority/secondary status detected - awaiting recovery")
            await application.stop(at_once=reason != STOPPED_BY_OPERATOR, last=last)
            node.log.info(f"node {node.settings.name} serves no clients any more: {reason}")
            del application
            gc.collect()
        self._ending = None
        done()
        node.cluster_changed()

    @property
    def clients(self) -> int:
        """Open connections."""
        return 0 if self.application is None else len(self.application.broker.connections)

    def partition_started(self) -> None:
        """Somebody is missing who may go on without this node."""
        if self.application is not None:
            _part(self.application)

    def partition_ended(self) -> None:
        """Everybody is here and of one mind."""
        if self.application is not None:
            self.application.orphan_collector.partition_ended()


def _part(application: Application) -> None:
    broker = application.broker
    application.orphan_collector.partition_started(LiveQueueContents(broker), broker.metadata.state)
