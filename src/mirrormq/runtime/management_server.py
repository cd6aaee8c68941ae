"""Management API server on the node's event loop.

Declarations, publishes and gets use a `Channel` without a socket. HTTP clients therefore meet the same
checks and texts as AMQP clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import TYPE_CHECKING, Any

from mirrormq.auth.client_peer import is_loopback
from mirrormq.auth.logins import OVERLOADED, Login, authenticate
from mirrormq.auth.sasl import PLAIN, Credentials
from mirrormq.config.settings import Settings
from mirrormq.control.commands import users
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.dispatch import answer
from mirrormq.control.node_interface import ClusterInterface, LiveObjects
from mirrormq.events.event_exchange import HTTP
from mirrormq.management import os_metrics
from mirrormq.management.live_push import LivePush
from mirrormq.management.managed_node import MANAGEMENT, METRICS, ClientGone, DirectChannel, TooManyLogins
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.records import User
from mirrormq.metadata.store import MetadataStore
from mirrormq.peers.failure_detector import DetectorTiming
from mirrormq.runtime.direct_channel import InProcessChannel
from mirrormq.runtime.http_server import HttpServer
from mirrormq.runtime.metadata_barrier import settled
from mirrormq.runtime.node_status import status
from mirrormq.runtime.timeline_file import TimelineKeeper
from mirrormq.runtime.tls import server_context

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection
    from mirrormq.management.http_application import HttpApplication
    from mirrormq.runtime.application import Application as NodeApplication


class _Managed:
    """Adapter of the runtime's node. Implements `management.managed_node.ManagedNode`."""

    def __init__(self, node: NodeApplication) -> None:
        self._node = node
        self.settings: Settings = node.settings
        self.metadata: MetadataStore = node.metadata
        self.live: LiveObjects = node.live
        self.status = lambda: status(node)
        self.set_memory_watermark = node.set_memory_watermark
        self.set_disk_free_limit = node.set_disk_free_limit
        self.stop = node.stop_node
        self.warn = node.warn
        self.longest_turn_s = node.longest_turn_s
        self.broker = node.broker
        self.started_at_s = node.started_at_s
        self.disk = node.disk.usage
        self.cluster: ClusterInterface = node.node.cluster
        self.cluster_id = node.node.cluster_node.member.cluster_id
        self.net_ticktime_s = node.settings.net_ticktime_s or DetectorTiming().down_ms / 1000
        self.log_files = node.node.logs.files
        self.timeline = node.node.timeline
        self.handles_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.sockets_max = node.sockets.most
        self.serving = True

    def pending_bytes(self, connection: Connection) -> int:
        socket = self._node.sockets.by_connection.get(connection)
        return 0 if socket is None else socket.pending_bytes

    def direct(self, user: User, vhost: str) -> DirectChannel:
        self._node.read_clock()
        return InProcessChannel(self.broker, user, vhost, self.changed)

    async def authenticate(
        self, name: str, password: bytes, host: str, gone: asyncio.Future[None]
    ) -> User | None:
        decided: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()
        logins = self.broker.events.logins

        def decide(user: User | None, _: str) -> None:
            logins[HTTP, user is not None] += 1
            if not decided.done():
                decided.set_result(user)

        def overloaded() -> None:
            logins[HTTP, False] += 1
            if not decided.done() and not gone.done():
                decided.set_exception(TooManyLogins(OVERLOADED))

        login = Login(
            Credentials(PLAIN, name, password), host, is_loopback(host), decide, overloaded,
            lambda: not gone.done(),
        )  # fmt: skip
        authenticate(self.broker, login)
        waiting: set[asyncio.Future[Any]] = {decided, gone}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not decided.done():
            raise ClientGone
        return decided.result()

    def count_refusal(self) -> None:
        logins = self.broker.events.logins
        logins[HTTP, True] -= 1
        logins[HTTP, False] += 1

    def changed(self) -> None:
        self._node.read_clock()
        self._node.end_turn_soon()

    async def carry_out(self, request: Request, where: str = "") -> Any:
        loop = asyncio.get_running_loop()
        request = await loop.run_in_executor(None, users.prepare, self._node.node, request)
        if where not in ("", self.settings.name):
            return await self.cluster.ask(where, request)
        reply = await answer(self._node.node, request)
        if not reply["ok"]:
            raise ControlError.of_reply(reply)
        return reply["result"]

    async def settled(self) -> None:
        await settled(self.metadata)


class ManagementServer:
    """HTTP API of a node with its listeners. Other nodes request data from it too."""

    def __init__(self, node: NodeApplication) -> None:
        self._node = node
        self._managed = managed = _Managed(node)
        interval_s = node.settings.collect_statistics_interval_ms / 1000
        self.statistics = Statistics(
            node.broker,
            interval_s,
            lambda: os_metrics.numbers(managed),
            node.settings.rates_mode,
        )
        self._live = LivePush(managed, self.statistics)
        self._application: asyncio.Future[HttpApplication] | None = None
        self._timeline = TimelineKeeper(node)
        self._http = HttpServer(self._serve, node.warn)
        self._sampling: asyncio.Task[None] | None = None

    async def answer(self, kind: str, options: dict[str, Any]) -> str:
        """Reply to a request from another node's API."""
        application = await self._loaded()
        return await application.answering.answer(kind, options)

    async def _serve(self, *request: Any) -> None:
        """Pass an ASGI request to the application."""
        application = await self._loaded()
        await application(*request)

    async def _loaded(self) -> HttpApplication:
        """Return the application. The first request loads it, in a thread, because that takes some 50 ms; a
        node without an operator at the page saves 3 MB."""
        if self._application is None:
            loop = asyncio.get_running_loop()
            self._application = loop.run_in_executor(None, self._load)
        return await asyncio.shield(self._application)

    def _load(self) -> HttpApplication:
        from mirrormq.management.http_application import HttpApplication

        return HttpApplication(self._managed, self.statistics, self._live)

    async def start(self) -> None:
        """Open the listeners and start sampling statistics."""
        settings, server = self._node.settings, self._http
        if settings.management_tls_listener is not None:
            context = server_context(settings.management_tls, self._node.node.certificates)
            await server.listen(settings.management_tls_listener, context, MANAGEMENT)
        if settings.management_listener is not None:
            await server.listen(settings.management_listener, None, MANAGEMENT)
        if settings.metrics_listener is not None:
            await server.listen(settings.metrics_listener, None, METRICS)
        self._sampling = asyncio.get_running_loop().create_task(self._sample())

    async def _sample(self) -> None:
        """Sample statistics, and push changes to live viewers."""
        parts = (self.statistics, self._live, self._timeline)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def stop(self) -> None:
        """Accept no new requests. Running requests may complete within a timeout."""
        self._http.close()
        self._live.close()
        self.statistics.detach()
        self._timeline.close()
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
        await self._http.stop()
