"""Node process: the parts that exist whether or not the node serves clients.

These are the settings, the control socket, the signals, and the cluster membership
(`runtime/cluster_node.py`) with the metadata. An `Application` serves clients. The cluster controller
(`cluster/controller.py`) starts and stops it: for the operator (`stop_app`, `start_app`), after the cluster
gave the node up as lost, or for a partition mode. Each incarnation is built again from disk.
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
from mirrormq.bridges.static_shovels import shovel_definitions
from mirrormq.broker.broker_limits import DEFAULT_LIMITS, BrokerLimits
from mirrormq.cluster.discovered_peers import DiscoveryFailed
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
from mirrormq.runtime.allocator import return_large_blocks
from mirrormq.runtime.application import Application
from mirrormq.runtime.application_supervisor import ApplicationSupervisor
from mirrormq.runtime.certificate_files import CHECK_INTERVAL_S, RenewedCertificates
from mirrormq.runtime.cluster_node import ClusterNode
from mirrormq.runtime.control_server import ControlServer
from mirrormq.runtime.first_boot import boot, check_name
from mirrormq.runtime.membership_commands import MembershipCommands
from mirrormq.runtime.metadata_barrier import settled
from mirrormq.runtime.node_status import status
from mirrormq.runtime.peer_discovery import discovered_peers
from mirrormq.runtime.peer_setup import advertised, open_links
from mirrormq.runtime.peer_watch import PeerWatch
from mirrormq.runtime.timeline_file import remembered
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.recovery_report import Dropped

WAITING_LOGGED_S = 5.0
"""Seconds that a node waits for its cluster before it logs the reason."""


class Node:
    """Running node process. Implements `control.node_interface.NodeShell` and
    `cluster_node.ClusterNodeHost`."""

    def __init__(
        self, settings: Settings, loop: asyncio.AbstractEventLoop, limits: BrokerLimits = DEFAULT_LIMITS
    ) -> None:
        self.settings = settings
        self.limits = limits
        self.loop = loop
        self.logs = log_output.Logs(settings.log)
        self.log = self.logs.logger()
        self.started_at_s = time.time()
        self.exit_code = 0
        self.certificates = RenewedCertificates(self.log)
        self.incarnations = ApplicationSupervisor(self)
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()
        self._peer_watch = PeerWatch(self)
        settings.data_directory.mkdir(parents=True, exist_ok=True)
        self.timeline = remembered(settings)
        self.files: ConsensusLog
        self.open_files(lambda: formation.first_snapshot(settings))
        check_name(settings)
        self.cluster_node = ClusterNode(self, self.incarnations, self.files, advertised(settings))
        self.cluster: ClusterInterface = MembershipCommands(self)
        self._control = ControlServer(self, self.applied)

    def open_files(self, first: Callable[[], Snapshot]) -> None:
        """Read the stored cluster metadata. `first` returns the snapshot for an empty directory."""
        directory = str(self.settings.data_directory / "metadata")
        self.files = ConsensusLog(LocalDisk(), directory, self.die)
        self.files.open(first, formation.next_boot())

    @property
    def application(self) -> Application | None:
        """Running application, or None while the node serves no clients."""
        return self.incarnations.application

    @property
    def metadata(self) -> MetadataStore:
        return self.cluster_node.member.metadata

    @property
    def lost_metadata(self) -> Sequence[Dropped]:
        """Parts of the metadata on disk that could not be read."""
        return self.files.dropped

    # -- cluster events ---------------------------------------------------------------------------

    def cluster_changed(self) -> None:
        """Wake everything that waits for a change of the cluster's state."""
        self._changed.set()

    def applied(self) -> None:
        """Schedule a turn after a metadata change, or after a command that may have woken queues."""
        if self.application is not None:
            self.application.after_waiting()
        self._changed.set()

    async def respond(self, request: Request) -> dict[str, Any]:
        """Execute a command that another node requests."""
        return await answer(self, request)

    # -- start and stop of the application --------------------------------------------------------

    async def start_app(self) -> None:
        """Start the application and return when clients can connect. Do nothing if it runs already."""
        await self._start()
        if self.application is None:
            raise ControlError("the application was stopped before it could start")

    async def _start(self) -> None:
        """Return when the application runs, or when the operator has stopped it meanwhile."""
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
        """Stop the application. Return when its clients are disconnected and its files are closed.

        An incarnation that is only claimed does not start afterwards. The other nodes need not have agreed
        to the claim; they may be unreachable.
        """
        serving = self.cluster_node.controller.serving
        self.cluster_node.controller.want(False)
        nothing = (LifecyclePhase.IDLE, LifecyclePhase.CLAIMING)
        await self._until(lambda: self.application is None and serving.phase in nothing)

    async def _until(self, condition: Callable[[], bool], *, waiting: bool = False) -> None:
        """Wait for a condition, and log the reason if it takes long."""
        logged = ""
        began = time.monotonic()
        while not condition() and not (waiting and self._stopped.is_set()):
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), WAITING_LOGGED_S)
            except TimeoutError:
                pass
            start_blocker = self.cluster_node.controller.serving.start_blocker() if waiting else ""
            if start_blocker not in ("", logged) and time.monotonic() - began >= WAITING_LOGGED_S:
                logged = start_blocker
                self.log.warning(f"node does not serve clients yet: {start_blocker}")

    async def settled(self) -> None:
        """Return when the cluster has agreed on all metadata written here."""
        try:
            await settled(self.metadata)
        except TimeoutError:
            raise ControlError("the cluster did not agree on the change in time", EXIT_TIMEOUT) from None

    # -- operator commands ----------------------------------------------------------------------

    @property
    def app_state(self) -> AppState:
        if self.incarnations.ending:
            return AppState.STOPPING
        if self.application is not None:
            return AppState.RUNNING
        return AppState.STARTING if self.cluster_node.controller.serving.wanted else AppState.STOPPED

    @property
    def serving(self) -> bool:
        """Whether clients can connect."""
        return self.app_state is AppState.RUNNING

    @property
    def running(self) -> Application:
        """Running application. Raise ControlError if there is none."""
        if self.application is None:
            raise ControlError("the node does not serve clients")
        return self.application

    @property
    def live(self) -> LiveObjects:
        return self.running.live

    async def manage(self, kind: str, options: dict[str, Any]) -> str:
        """Reply to another node's HTTP API with JSON."""
        return await self.running.management.answer(kind, options)

    def status(self) -> dict[str, Any]:
        """Return the values of `mirrormqctl status`."""
        return status(self.running)

    async def suspend_listeners(self) -> None:
        """Accept no new clients."""
        self.running.suspend_listeners()

    async def resume_listeners(self) -> None:
        """Accept new clients again."""
        await self.running.resume_listeners()

    async def discover_peers(self) -> list[str]:
        """Return the names of the nodes that peer discovery shows."""
        settings = self.settings
        if not formation.discovers(settings):
            return [seed.name for seed in (*settings.classic_config_nodes, *settings.join)]
        try:
            return sorted(await discovered_peers(settings))
        except DiscoveryFailed as error:
            raise ControlError(f"Peer discovery failed: {error}.") from None

    async def resolve(self, host: str, version: int) -> list[str]:
        """Return the addresses of a host, as this machine resolves them."""
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        resolved = await self.loop.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM)
        return sorted({str(ends[0]) for *_, ends in resolved})

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""
        self.running.set_memory_watermark(relative, absolute_bytes)

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""
        self.running.set_disk_free_limit(relative, absolute_bytes)

    # -- stop of the process --------------------------------------------------------------------

    def die(self, failure: Exception) -> None:
        """Stop the process after the disk or the metadata has failed: nothing may be confirmed from now
        on."""
        if self.exit_code:
            return
        why = " because its journal failed" if isinstance(failure, JournalFailed) else ""
        self.log.critical(f"node stops{why}: {failure}")
        if self.application is not None:
            self.application.sockets.abort_all()
        self.exit_code = 1
        self.stop()

    def stop(self) -> None:
        """Begin a graceful stop of the process."""
        self._stopped.set()
        self._changed.set()

    async def run(self) -> int:
        """Run until a signal or a command stops the node. Return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self.stop)
        self.cluster_node.controller.serving.wanted = True
        problem = await self._control.start()
        if problem is not None:
            self.log.warning(problem)
        for warning in self.settings.warnings:
            self.log.warning(warning)
        self._check_certificates()
        try:
            await self._enter_cluster()
            self._peer_watch.start()
            await self._start()
            await self._forget_as_noted()
            service_manager.notify(service_manager.READY)
            await self._stopped.wait()
        finally:
            service_manager.notify(service_manager.STOPPING)
            await self._finish()
        self.log.info(f"node {self.settings.name} has stopped")
        return self.exit_code

    def _check_certificates(self) -> None:
        self.certificates.reload_changed()
        self.loop.call_later(CHECK_INTERVAL_S, self._check_certificates)

    async def _enter_cluster(self) -> None:
        """Open the peer links, and find or create the cluster if the node has none."""
        here = self.cluster_node
        await open_links(self)
        here.begin()
        if boot_flags.forced(self.settings.data_directory):
            here.force()
        if not here.member.cluster_id:
            await formation.form(here, self.files, self.log, self._stopped)
        elif here.members == [self.settings.name]:
            boot(self.metadata, self.settings)

    async def _forget_as_noted(self) -> None:
        """Execute the removals that `forget_cluster_node --offline` has recorded."""
        if not self.serving:
            return
        recorded = "as recorded while this node was down"
        for name in boot_flags.read(self.settings.data_directory):
            try:
                await self.cluster.forget(name)
            except ControlError as error:
                self.log.error(f"removing {name} from the cluster failed, {recorded}: {error.text}")
            else:
                self.log.warning(f"removed {name} from the cluster, {recorded}")
        boot_flags.clear(self.settings.data_directory)

    async def _finish(self) -> None:
        self._peer_watch.stop()
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
    """Run the cycle collector rarely: messages exist by the hundred thousand and hold no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(limits.COLLECTOR_THRESHOLD, 20, 100)


def run(settings: Settings) -> int:
    """Run one node in the foreground. Return the exit code."""
    shovel_definitions(settings.static_shovels)  # refuses bad ones before anything is opened
    return_large_blocks()
    uvloop.install()

    async def main() -> int:
        _tune_collector()
        try:
            node = Node(settings, asyncio.get_running_loop())
            return await node.run()
        except (DamageError, JournalFailed, OSError) as error:
            log_output.logger(settings.log).critical(f"node cannot start: {error}")
            return 1

    return asyncio.run(main())
