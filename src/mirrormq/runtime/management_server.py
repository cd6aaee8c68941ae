"""Serves the management API on the node's own loop.

uvicorn's protocol turns bytes into requests; the listening and the stopping are ours, because
`uvicorn.Server.serve` would take over the node's signals. Declarations, publishes and gets go over a
`Channel` without a socket, so that HTTP clients meet the same checks and texts as AMQP clients.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from mirrormq.auth.sasl import PLAIN, Credentials
from mirrormq.channels.channel import METHODS, Channel
from mirrormq.config.settings import Address, Settings
from mirrormq.connections.peer import Peer, is_loopback
from mirrormq.control.node import LiveObjects
from mirrormq.errors import ConfigurationError, InternalError
from mirrormq.management.application import Application
from mirrormq.management.live import Live
from mirrormq.management.seam import DirectChannel
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.records import User
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames
from mirrormq.wire.fields import Table, decode_table, table_of
from mirrormq.wire.methods import decode_method, encode_basic_publish

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.vhost import Vhost
    from mirrormq.connections.connection import Connection
    from mirrormq.runtime.application import Application as NodeApplication

ANSWER_TIMEOUT_S = 30.0
"""How long a declaration or a confirm may take before the client is told that it did not come."""

CONNECTIONS_MAX = 500
"""HTTP connections that are served at a time; one more is told 503. Browsers open six each."""

STOP_TIMEOUT_S = 2.0
"""How long requests may go on when the node stops."""


class _DirectConnection:
    """What a Channel needs of its connection, where there is no socket: replies go to a callback."""

    def __init__(self, broker: Broker, user: User, vhost: str, heard: Callable[[bytes], None]) -> None:
        self.broker = broker
        self.user = user
        self.vhost_name = vhost
        self.name = f"<management {user.name}>"
        self.peer = Peer("127.0.0.1", 0)
        self.variables: dict[str, str] = {}
        self.frame_max = broker.settings.frame_max
        self.client_properties: Table = {}
        self.writable = True
        self.closed = False
        self.reply_bytes = 0
        self._heard = heard

    @property
    def vhost(self) -> Vhost:
        return self.broker.vhosts[self.vhost_name]

    def hold(self) -> None:
        """A request is made of one method at a time anyway."""

    def release(self) -> None:
        """The same."""

    def send(self, channel: int, payload: bytes) -> None:
        self._heard(payload)

    def output(self) -> list[bytes]:
        """Contents that come back are not looked at."""
        return []

    def client_can(self, capability: str) -> bool:
        return False

    def congested_by(self, queue: Queue, count: int, size_bytes: int) -> None:
        """One message at a time congests nobody."""


class SocketlessChannel:
    """Implements `management.seam.DirectChannel`."""

    def __init__(self, broker: Broker, user: User, vhost: str, turn: Callable[[], None]) -> None:
        self._connection = _DirectConnection(broker, user, vhost, self._hear)
        self._channel = Channel(cast("Connection", self._connection), 1)
        self._turn = turn
        self._answer: asyncio.Future[None] | None = None
        self._awaited: frozenset[int] = frozenset()
        self._heard: list[int] = []

    def _hear(self, payload: bytes) -> None:
        method_id = int.from_bytes(payload[:4], "big")
        self._heard.append(method_id)
        if method_id in self._awaited and self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    async def _ask(self, request: bytes, *awaited: int) -> None:
        self._expect(*awaited)
        METHODS[int.from_bytes(request[:4], "big")](self._channel, decode_method(request))
        await self._answered()

    def _expect(self, *awaited: int) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self._awaited = frozenset(awaited)

    async def _answered(self) -> None:
        assert self._answer is not None
        self._turn()
        try:
            await asyncio.wait_for(self._answer, ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise InternalError("no answer in time") from None

    async def declare_queue(
        self, name: str, *, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]
    ) -> None:
        request = methods.encode_queue_declare(
            name, durable=durable, auto_delete=auto_delete, arguments=table_of(arguments)
        )
        await self._ask(request, methods.QUEUE_DECLARE_OK)

    async def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool) -> None:
        request = methods.encode_queue_delete(name, if_unused=if_unused, if_empty=if_empty)
        await self._ask(request, methods.QUEUE_DELETE_OK)

    async def purge_queue(self, name: str) -> None:
        await self._ask(methods.encode_queue_purge(name), methods.QUEUE_PURGE_OK)

    async def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, Any],
    ) -> None:
        request = methods.encode_exchange_declare(
            name,
            kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=table_of(arguments),
        )
        await self._ask(request, methods.EXCHANGE_DECLARE_OK)

    async def delete_exchange(self, name: str, *, if_unused: bool) -> None:
        await self._ask(methods.encode_exchange_delete(name, if_unused=if_unused), methods.EXCHANGE_DELETE_OK)

    async def bind(
        self, source: str, kind: str, destination: str, key: str, arguments: Mapping[str, Any]
    ) -> None:
        table = table_of(arguments)
        if kind == "queue":
            request = methods.encode_queue_bind(destination, source, key, arguments=table)
            await self._ask(request, methods.QUEUE_BIND_OK)
        else:
            request = methods.encode_exchange_bind(destination, source, key, arguments=table)
            await self._ask(request, methods.EXCHANGE_BIND_OK)

    async def unbind(self, source: str, kind: str, destination: str, key: str, arguments: bytes) -> None:
        table = decode_table(len(arguments).to_bytes(4, "big") + arguments, 0)[0]
        if kind == "queue":
            request = methods.encode_queue_unbind(destination, source, key, arguments=table)
            await self._ask(request, methods.QUEUE_UNBIND_OK)
        else:
            request = methods.encode_exchange_unbind(destination, source, key, arguments=table)
            await self._ask(request, methods.EXCHANGE_UNBIND_OK)

    async def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> bool:
        await self._ask(methods.encode_confirm_select(), methods.CONFIRM_SELECT_OK)
        self._expect(methods.BASIC_ACK, methods.BASIC_NACK)
        content = build_frames(1, properties, body, self._connection.frame_max)
        self._channel.publishes(encode_basic_publish(exchange, key, mandatory=True), properties, [content])
        await self._answered()
        return methods.BASIC_RETURN not in self._heard and methods.BASIC_NACK not in self._heard

    def get(self, queue: str, count: int, mode: str, most_bytes: int) -> list[tuple[Message, int]]:
        channel = self._channel
        channel.check_permission("queue", queue, "read")
        found = channel.vhost.accessible_queue(queue, channel.connection)
        taken: list[tuple[Message, int]] = []
        size = 0
        while len(taken) < count and size < most_bytes:
            message = found.get(False)
            if message is None:
                break
            size += message.body_size
            taken.append((message, found.backing.ready_count))
        messages = [message for message, _ in taken]
        copies = [(_copy(message), left) for message, left in taken]
        if not messages:
            return []
        if mode == "ack_requeue_false":
            found.acknowledge(messages)
        elif mode == "reject_requeue_false":
            found.reject(messages)
        else:
            found.requeue(messages)
        self._turn()
        return copies


def _copy(message: Message) -> Message:
    """As it was when it was taken: going back to its queue marks it redelivered."""
    copy = Message(message.envelope, message.frames)
    copy.redelivered = message.redelivered
    return copy


class _Managed:
    """Implements `management.seam.ManagedNode` over the runtime's node."""

    def __init__(self, node: NodeApplication) -> None:
        self._node = node
        self.settings: Settings = node.settings
        self.metadata: MetadataStore = node.metadata
        self.live: LiveObjects = node.live
        self.status = node.status
        self.set_memory_watermark = node.set_memory_watermark
        self.set_disk_free_limit = node.set_disk_free_limit
        self.stop = node.stop_node
        self.warn = node.warn
        self.broker = node.broker
        self.started_at_s = node.started_at_s
        self.serving = True

    def direct(self, user: User, vhost: str) -> DirectChannel:
        self._node.read_clock()
        return SocketlessChannel(self.broker, user, vhost, self.changed)

    async def authenticate(self, name: str, password: bytes, host: str) -> User | None:
        decided: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()

        def decide(user: User | None, _: str) -> None:
            if not decided.done():
                decided.set_result(user)

        self.broker.authenticate(Credentials(PLAIN, name, password), is_loopback(host), decide)
        return await decided

    def changed(self) -> None:
        self._node.read_clock()
        self._node.end_turn_soon()


class ManagementServer:
    """The API's listener."""

    def __init__(self, node: NodeApplication) -> None:
        self._node = node
        self._servers: list[asyncio.Server] = []
        self._sampling: asyncio.Task[None] | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._live: Live | None = None

    async def start(self, address: Address) -> None:
        """Listen; uvicorn's own start-up is done here piece by piece, without its signals."""
        interval_s = self._node.settings.collect_statistics_interval_ms / 1000
        statistics = Statistics(self._node.broker, interval_s)
        application = Application(_Managed(self._node), statistics)
        self._live = application.live
        config = uvicorn.Config(
            application, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
        )  # fmt: skip
        config.load()
        self._uvicorn = server = uvicorn.Server(config)
        await server.on_tick(0)
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=server.server_state, app_state={}, _loop=loop
            )

        hosts = ["127.0.0.1", "::1"] if address.host == "localhost" else [address.host or None]
        for host in hosts:
            try:
                self._servers.append(await loop.create_server(protocol, host, address.port))
            except OSError as error:
                if self._servers and host == "::1":
                    continue
                raise ConfigurationError(
                    f"Cannot listen on {host}:{address.port} for management: {error.strerror}."
                ) from error
        self._sampling = loop.create_task(self._sample(statistics, application.live))

    async def _sample(self, statistics: Statistics, live: Live) -> None:
        """Samples, what viewers are told, and uvicorn's clock for the Date header."""
        assert self._uvicorn is not None
        tasks = [asyncio.create_task(statistics.run()), asyncio.create_task(live.run())]
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
        if self._live is not None:
            self._live.close()
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
