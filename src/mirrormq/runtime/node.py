"""One node, as a process: what is there whether or not it serves clients.

The shell is the settings, the control socket, the signals, and the node's place in its cluster
(`runtime/cluster_node.py`) with the metadata. What serves clients is an `Application`, which lives and dies
as the steward says (`cluster/controller.py`), whoever it was that wanted it: the operator (`stop_app`,
`start_app`), a cluster that gave the node up as lost, a partition mode. Each life is built anew from disk.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import uvloop

from mirrormq import limits
from mirrormq.cluster.lifecycle import STOPPED_BY_OPERATOR, LifecyclePhase
from mirrormq.config.settings import Settings
from mirrormq.consensus import Snapshot
from mirrormq.control import boot_flags
from mirrormq.control.control_protocol import EXIT_TIMEOUT, ControlError, Request
from mirrormq.control.dispatch import answer
from mirrormq.control.node_interface import AppState, ClusterInterface, LiveObjects
from mirrormq.errors import DamageError
from mirrormq.metadata.store import MetadataStore
from mirrormq.runtime import formation, log_output, service_manager
from mirrormq.runtime.application import Application
from mirrormq.runtime.application_supervisor import ApplicationSupervisor
from mirrormq.runtime.certificate_files import LOOK_S, RenewedCertificates
from mirrormq.runtime.cluster_node import ClusterNode
from mirrormq.runtime.control_server import ControlServer
from mirrormq.runtime.first_boot import boot, check_name
from mirrormq.runtime.membership_commands import MembershipCommands
from mirrormq.runtime.metadata_barrier import settled
from mirrormq.runtime.node_status import status
from mirrormq.runtime.peer_setup import advertised, open_links
from mirrormq.runtime.timeline_file import remembered
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.recovery_report import Dropped

WAITING_LOGGED_S = 5.0
"""How long a node waits for its cluster before it says what for."""


class Node:
    """A running process. Implements `control.node.NodeShell`, and what `cluster_node` needs of it."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.settings = settings
        self.loop = loop
        self.logs = log_output.Logs(settings.log)
        self.log: Any = self.logs.logger()
        self.started_at_s = time.time()
        self.exit_code = 0
        self.certificates = RenewedCertificates(self.log)
        self.incarnations = ApplicationSupervisor(self)
        self._news = asyncio.Event()
        self._stopped = asyncio.Event()
        settings.data_directory.mkdir(parents=True, exist_ok=True)
        self.timeline = remembered(settings)
        self.files: ConsensusLog
        self.open_files(lambda: formation.first_snapshot(settings))
        check_name(settings)
        self.cluster_node = ClusterNode(self, self.incarnations, self.files, advertised(settings))
        self.cluster: ClusterInterface = MembershipCommands(self)
        self._control = ControlServer(self, self.applied)

    def open_files(self, first: Callable[[], Snapshot]) -> None:
        """Read what the node remembers of its cluster; `first` gives what an empty one begins with."""
        directory = str(self.settings.data_directory / "metadata")
        self.files = ConsensusLog(LocalDisk(), directory, self.die)
        self.files.open(first, formation.next_boot())

    @property
    def application(self) -> Application | None:
        """What serves clients, if anything does."""
        return self.incarnations.application

    @property
    def metadata(self) -> MetadataStore:
        return self.cluster_node.member.metadata

    @property
    def lost_metadata(self) -> Sequence[Dropped]:
        """What of the metadata on disk could not be read."""
        return self.files.dropped

    # -- what its cluster tells it ----------------------------------------------------------------

    def cluster_changed(self) -> None:
        """The answer to a question about the cluster may be another than before."""
        self._news.set()

    def applied(self) -> None:
        """The metadata has changed, or a verb has woken queues."""
        if self.application is not None:
            self.application.after_waiting()
        self._news.set()

    async def respond(self, request: Request) -> dict[str, Any]:
        """Carry out a verb that another node asks for."""
        return await answer(self, request)

    # -- what the operator wants ------------------------------------------------------------------

    async def start_app(self) -> None:
        """Serve clients; returns when they can come. Does nothing if they can already."""
        await self._start()
        if self.application is None:
            raise ControlError("the application was stopped before it could start")

    async def _start(self) -> None:
        """Returns when clients are served, or when nobody wants that any more."""
        if self.cluster_node.forgotten:
            raise ControlError(self.cluster_node.disagreement())
        incarnations, controller = self.incarnations, self.cluster_node.controller
        incarnations.failure = None
        controller.want(True)
        await self._until(
            lambda: incarnations.application is not None or not controller.serving.wanted, waiting=True
        )
        if incarnations.failure is not None:
            raise incarnations.failure

    async def stop_app(self) -> None:
        """Serve no clients; returns when they are gone and the files are closed. A life that is only claimed
        will not begin any more; the others, who may be out of reach, need not have agreed to it."""
        serving = self.cluster_node.controller.serving
        self.cluster_node.controller.want(False)
        nothing = (LifecyclePhase.IDLE, LifecyclePhase.CLAIMING)
        await self._until(lambda: self.application is None and serving.phase in nothing)

    async def _until(self, condition: Callable[[], bool], *, waiting: bool = False) -> None:
        """Wait, and say what for if it takes long."""
        said = ""
        began = time.monotonic()
        while not condition() and not (waiting and self._stopped.is_set()):
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), WAITING_LOGGED_S)
            except TimeoutError:
                pass
            start_blocker = self.cluster_node.controller.serving.start_blocker() if waiting else ""
            if start_blocker not in ("", said) and time.monotonic() - began >= WAITING_LOGGED_S:
                said = start_blocker
                self.log.warning(f"the node does not serve clients yet: {start_blocker}")

    async def settled(self) -> None:
        """Returns when the metadata that was written has been agreed on."""
        try:
            await settled(self.metadata)
        except TimeoutError:
            raise ControlError("the cluster did not agree on it in time", EXIT_TIMEOUT) from None

    # -- what the operator sees and says --------------------------------------------------------

    @property
    def app_state(self) -> AppState:
        if self.incarnations.ending:
            return AppState.STOPPING
        if self.application is not None:
            return AppState.RUNNING
        return AppState.STARTING if self.cluster_node.controller.serving.wanted else AppState.STOPPED

    @property
    def serving(self) -> bool:
        """Can clients come?"""
        return self.app_state is AppState.RUNNING

    @property
    def running(self) -> Application:
        """The application; only verbs that need it ask, and they are refused while there is none."""
        if self.application is None:
            raise ControlError("the node does not serve clients")
        return self.application

    @property
    def live(self) -> LiveObjects:
        return self.running.live

    async def manage(self, kind: str, question: dict[str, Any]) -> str:
        """What another node's HTTP API wants to know, as JSON."""
        return await self.running.management.answer(kind, question)

    def status(self) -> dict[str, Any]:
        """The values of `mirrormqctl status`."""
        return status(self.running)

    async def suspend_listeners(self) -> None:
        """Let no new clients in."""
        self.running.suspend_listeners()

    async def resume_listeners(self) -> None:
        """Let clients in again."""
        await self.running.resume_listeners()

    async def resolve(self, host: str, version: int) -> list[str]:
        """The addresses of a host, as this machine sees them."""
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        found = await self.loop.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM)
        return sorted({str(ends[0]) for *_, ends in found})

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""
        self.running.set_memory_watermark(relative, absolute_bytes)

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""
        self.running.set_disk_free_limit(relative, absolute_bytes)

    # -- the end --------------------------------------------------------------------------------

    def die(self, failure: Exception) -> None:
        """The disk or the metadata has failed us: nothing may be confirmed from now on, so nothing is."""
        if self.exit_code:
            return
        why = " because its journal failed" if isinstance(failure, JournalFailed) else ""
        self.log.critical(f"the node stops{why}: {failure}")
        if self.application is not None:
            self.application.sockets.abort_all()
        self.exit_code = 1
        self.stop()

    def stop(self) -> None:
        """Begin a graceful stop of the process."""
        self._stopped.set()
        self._news.set()

    async def run(self) -> int:
        """Serve until told to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self.stop)
        self.cluster_node.controller.serving.wanted = True
        problem = await self._control.start()
        if problem is not None:
            self.log.warning(problem)
        for warning in self.settings.warnings:
            self.log.warning(warning)
        self._look_at_certificates()
        try:
            await self._take_part()
            await self._start()
            await self._forget_as_noted()
            service_manager.tell(service_manager.READY)
            await self._stopped.wait()
        finally:
            service_manager.tell(service_manager.STOPPING)
            await self._finish()
        self.log.info(f"node {self.settings.name} has stopped")
        return self.exit_code

    def _look_at_certificates(self) -> None:
        self.certificates.look()
        self.loop.call_later(LOOK_S, self._look_at_certificates)

    async def _take_part(self) -> None:
        """Come into contact with the cluster, which may have to be found or begun first."""
        here = self.cluster_node
        await open_links(self)
        here.begin()
        if boot_flags.forced(self.settings.data_directory):
            here.force()
        if not here.member.cluster_id:
            await formation.form(here, self.files, self.log)
        elif here.members == [self.settings.name]:
            boot(self.metadata, self.settings)

    async def _forget_as_noted(self) -> None:
        """Do what `forget_cluster_node --offline` has left to be done."""
        if not self.serving:
            return
        noted = "as was noted while this node was down"
        for name in boot_flags.read(self.settings.data_directory):
            try:
                await self.cluster.forget(name)
            except ControlError as error:
                self.log.error(f"the cluster has not forgotten {name}, {noted}: {error.text}")
            else:
                self.log.warning(f"the cluster has forgotten {name}, {noted}")
        boot_flags.clear(self.settings.data_directory)

    async def _finish(self) -> None:
        if self.exit_code:
            await self.incarnations.end(STOPPED_BY_OPERATOR)
        else:
            await self.stop_app()
            await self.cluster_node.close()
            try:
                self.files.close()
            except JournalFailed as failure:
                self.die(failure)
        await self._control.stop()


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
            log_output.logger(settings.log).critical(f"the node cannot start: {error}")
            return 1

    return asyncio.run(main())
