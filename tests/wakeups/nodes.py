"""Real nodes and real sockets in this process, on the clock of `idle_clock`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirrormq.broker.broker_limits import DEFAULT_LIMITS, BrokerLimits
from mirrormq.config.settings import Address, Seed, Settings
from mirrormq.runtime import application
from mirrormq.runtime.node import Node
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.brokers.ports import free_ports
from tests.wakeups.idle_clock import IdleClockLoop

START_S = 1_700_000_000.0
FRAME_MAX = 131_072
HEAD_SIZE = 7
METHOD = 1
DEADLINE_S = 600.0
"""On the loop's clock: reached only if what is waited for never comes."""


class Client:
    """A client's socket: sends frames as they are, counts what comes back by method."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.heard: dict[int, int] = {}
        """Methods received so far, by id."""
        self.confirmed_up_to = 0
        self.tag = 0
        """The last delivery tag."""

    @classmethod
    async def connect(cls, port: int, limit: int = 1 << 16) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))
        can = {"capabilities": {"connection.blocked": True, "basic.nack": True}}
        client.raw(b"AMQP\x00\x00\x09\x01")
        await client.until(methods.CONNECTION_START)
        client.send(
            methods.encode_connection_start_ok(table_of(can), "PLAIN", b"\0guest\0guest", "en_US"), channel=0
        )
        await client.until(methods.CONNECTION_TUNE)
        client.send(methods.encode_connection_tune_ok(2047, FRAME_MAX, 0), channel=0)
        client.send(methods.encode_connection_open("/"), channel=0)
        client.send(methods.encode_channel_open())
        await client.until(methods.CHANNEL_OPEN_OK)
        return client

    def raw(self, data: bytes) -> None:
        self._writer.write(data)

    def send(self, *payloads: bytes, channel: int = 1) -> None:
        self.raw(b"".join([method_frame(channel, payload) for payload in payloads]))

    def publish(
        self, key: str, count: int, size: int = 1, *, exchange: str = "", body: bytes = b"", **properties: Any
    ) -> None:
        method = method_frame(1, methods.encode_basic_publish(exchange, key))
        header = encode_properties(BasicProperties(**properties))
        self.raw((method + build_frames(1, header, body or b"x" * size, FRAME_MAX)) * count)

    async def until(self, method_id: int, count: int = 1) -> None:
        """Read until so many more methods of a kind have come than had before the last call."""
        while self.heard.get(method_id, 0) < count:
            await self._frame()
        self.heard[method_id] -= count

    async def until_confirmed(self, number: int) -> None:
        while self.confirmed_up_to < number:
            await self._frame()

    async def _frame(self) -> None:
        head = await self._reader.readexactly(HEAD_SIZE)
        payload = (await self._reader.readexactly(int.from_bytes(head[3:], "big") + 1))[:-1]
        if head[0] != METHOD:
            return
        method_id = int.from_bytes(payload[:4], "big")
        self.heard[method_id] = self.heard.get(method_id, 0) + 1
        decoded = methods.decode_method(payload)
        if isinstance(decoded, methods.BasicAck):
            self.confirmed_up_to = max(self.confirmed_up_to, decoded.delivery_tag)
        elif isinstance(decoded, methods.BasicDeliver):
            self.tag = decoded.delivery_tag
        elif isinstance(decoded, methods.ChannelClose | methods.ConnectionClose | methods.BasicNack):
            raise AssertionError(decoded)

    def close(self) -> None:
        self._writer.transport.abort()


class World:
    """The nodes of one test, and its clock."""

    def __init__(self, loop: IdleClockLoop, directory: Path, limits: BrokerLimits) -> None:
        self.loop = loop
        self._limits = limits
        self.nodes: list[Node] = []
        self._running: list[asyncio.Task[int]] = []
        self._clients: list[Client] = []
        self._directory = directory

    async def start(self, count: int) -> None:
        ports = free_ports(2 * count)
        founder: tuple[Seed, ...] = ()
        for number in range(count):
            name = f"n{number}@localhost"
            cluster = Address("127.0.0.1", ports[count + number])
            settings = Settings(
                name=name, data_directory=self._directory / name, runtime_directory=self._directory / "run",
                amqp_listeners=(Address("127.0.0.1", ports[number]),), management_listener=None,
                cluster_listener=cluster if count > 1 else None, cluster_advertised=cluster, cookie="wakeups",
                join=founder, disk_free_limit_bytes=0,
            )  # fmt: skip
            founder = founder or (Seed(name, cluster),)
            node = Node(settings, self.loop, self._limits)
            self.nodes.append(node)
            self._running.append(asyncio.create_task(node.run()))
            while node.application is None or not node.serving:
                assert not self._running[-1].done(), "the node has stopped"
                await asyncio.sleep(0.01)

    async def connect(self, node: int = 0, **options: Any) -> Client:
        client = await Client.connect(self.nodes[node].settings.amqp_listeners[0].port, **options)
        self._clients.append(client)
        return client

    @property
    def now_ms(self) -> float:
        return self.loop.time() * 1000

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        for node, running in zip(reversed(self.nodes), reversed(self._running), strict=True):
            node.stop()
            await running


def run(
    scenario: Callable[[World], Awaitable[None]],
    nodes: int,
    directory: Path,
    patch: pytest.MonkeyPatch,
    limits: BrokerLimits = DEFAULT_LIMITS,
) -> None:
    """Run a scenario on fresh nodes."""
    loop = IdleClockLoop()
    clock = SimpleNamespace(time=lambda: START_S + loop.time(), monotonic=loop.time)
    patch.setattr(application, "time", clock)

    async def incarnation() -> None:
        world = World(loop, directory, limits)
        try:
            await world.start(nodes)
            await asyncio.wait_for(scenario(world), DEADLINE_S)
        finally:
            await world.stop()

    try:
        loop.run_until_complete(incarnation())
    finally:
        loop.close()
