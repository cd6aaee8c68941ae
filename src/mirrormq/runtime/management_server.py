"""Serves the management API on the node's own loop.

uvicorn's protocol turns bytes into requests; the listening and the stopping are ours, because
`uvicorn.Server.serve` would take over the node's signals. Declarations, publishes and gets go over a
`Channel` without a socket, so that HTTP clients meet the same checks and texts as AMQP clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import uvicorn

from mirrormq.auth.sasl import PLAIN, Credentials
from mirrormq.broker.telling.events import HTTP
from mirrormq.config.settings import Address, Settings
from mirrormq.connections.peer import is_loopback
from mirrormq.control.dispatch import answer
from mirrormq.control.node import ClusterFace, LiveObjects
from mirrormq.control.protocol import ControlError, Request
from mirrormq.control.verbs import users
from mirrormq.errors import start_error
from mirrormq.interlink.detector import Timing
from mirrormq.management import machine
from mirrormq.management.application import Application
from mirrormq.management.seam import DirectChannel
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.records import User
from mirrormq.metadata.store import MetadataStore
from mirrormq.runtime.direct_channel import SocketlessChannel
from mirrormq.runtime.settling import settled
from mirrormq.runtime.status import status
from mirrormq.runtime.timeline_keeper import TimelineKeeper
from mirrormq.runtime.tls import server_context

if TYPE_CHECKING:
    import ssl

    from mirrormq.connections.connection import Connection
    from mirrormq.runtime.application import Application as NodeApplication

CONNECTIONS_MAX = 500
"""HTTP connections that are served at a time; one more is told 503. Browsers open six each."""

STOP_TIMEOUT_S = 2.0
"""How long requests may go on when the node stops."""


class _Managed:
    """Implements `management.seam.ManagedNode` over the runtime's node."""

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
        self.broker = node.broker
        self.started_at_s = node.started_at_s
        self.disk = node.disk.usage
        self.cluster: ClusterFace = node.node.cluster
        self.cluster_id = node.node.cluster_node.member.cluster_id
        self.net_ticktime_s = node.settings.net_ticktime_s or Timing().down_ms / 1000
        self.timeline = node.node.timeline
        self.handles_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.sockets_max = node.sockets.most
        self.serving = True

    def pending_bytes(self, connection: Connection) -> int:
        socket = self._node.sockets.by_connection.get(connection)
        return 0 if socket is None else socket.pending_bytes

    def direct(self, user: User, vhost: str) -> DirectChannel:
        self._node.read_clock()
        return SocketlessChannel(self.broker, user, vhost, self.changed)

    async def authenticate(self, name: str, password: bytes, host: str) -> User | None:
        decided: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()

        def decide(user: User | None, _: str) -> None:
            self.broker.events.logins[HTTP, user is not None] += 1
            if not decided.done():
                decided.set_result(user)

        self.broker.authenticate(Credentials(PLAIN, name, password), is_loopback(host), decide)
        return await decided

    def turned_away(self) -> None:
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
    """The API, and its listeners if there are any: other nodes ask for its answers too."""

    def __init__(self, node: NodeApplication) -> None:
        self._node = node
        managed = _Managed(node)
        interval_s = node.settings.collect_statistics_interval_ms / 1000
        self.statistics = Statistics(
            node.broker,
            interval_s,
            lambda: machine.numbers(managed),
            node.settings.rates_mode,
        )
        self.application = Application(managed, self.statistics)
        self._timeline = TimelineKeeper(node)
        self._servers: list[asyncio.Server] = []
        self._sampling: asyncio.Task[None] | None = None
        self._uvicorn: uvicorn.Server | None = None

    async def answer(self, kind: str, question: dict[str, Any]) -> str:
        """What another node's API asks."""
        return await self.application.answering.answer(kind, question)

    async def start(self) -> None:
        """Take samples, and listen; uvicorn's own start-up is done here piece by piece, without its
        signals."""
        settings = self._node.settings
        config = uvicorn.Config(
            self.application, log_config=None, access_log=False, lifespan="off", ws="none",
            server_header=False, proxy_headers=False, limit_concurrency=CONNECTIONS_MAX,
        )  # fmt: skip
        config.load()
        self._uvicorn = server = uvicorn.Server(config)
        await server.on_tick(0)
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=server.server_state, app_state={}, _loop=loop
            )

        if settings.management_tls_listener is not None:
            context = server_context(settings.management_tls, self._node.node.certificates)
            await self._listen(protocol, settings.management_tls_listener, context)
        if settings.management_listener is not None:
            await self._listen(protocol, settings.management_listener, None)
        self._sampling = loop.create_task(self._sample())

    async def _listen(
        self, protocol: Callable[[], asyncio.Protocol], address: Address, context: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        opened = False
        hosts = ["127.0.0.1", "::1"] if address.host == "localhost" else [address.host or None]
        for host in hosts:
            try:
                self._servers.append(await loop.create_server(protocol, host, address.port, ssl=context))
            except OSError as error:
                if opened and host == "::1":
                    continue
                text = f"Cannot listen on {host}:{address.port} for management: {error.strerror}."
                raise start_error(text, error) from error
            opened = True

    async def _sample(self) -> None:
        """Samples, what viewers are told, and uvicorn's clock for the Date header."""
        assert self._uvicorn is not None
        live = self.application.live
        tasks = [asyncio.create_task(part.run()) for part in (self.statistics, live, self._timeline)]
        try:
            while True:
                await asyncio.sleep(1.0)
                await self._uvicorn.on_tick(0)
        finally:
            for task in tasks:
                task.cancel()

    async def stop(self) -> None:
        """No more requests; those under way get a moment."""
        for server in self._servers:
            server.close()
        self.application.live.close()
        self.statistics.retire()
        self._timeline.close()
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
        if self._uvicorn is not None:
            state = self._uvicorn.server_state
            for connection in list(state.connections):
                connection.shutdown()
            if state.tasks:
                await asyncio.wait(set(state.tasks), timeout=STOP_TIMEOUT_S)
