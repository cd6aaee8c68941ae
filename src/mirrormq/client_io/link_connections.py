"""Connections of one link on an event loop: those to its two sides, and its timer.

The link decides (`bridges.link`), its owner decides what a connection is and what follows a step of the link.
This class opens both connections, passes their events on until the link gives them up, and keeps the time.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from mirrormq.bridges.link import Link, Side
from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Closed, Event, Opened
from mirrormq.client_io.asyncio_client import AsyncioClient
from mirrormq.client_io.client_socket import ConnectionEnded


def now_ms() -> int:
    """Return the Unix time in milliseconds."""
    return int(time.time() * 1000)


class LinkClient(Protocol):
    """Connection to one side of a link; `AsyncioClient` is the usual one."""

    connection: ClientConnection

    @property
    def writable(self) -> bool: ...
    async def open(self) -> None: ...
    def flush(self) -> None: ...
    def read(self, reading: bool) -> None: ...
    def abort(self, text: str) -> None: ...


Client = TypeVar("Client", bound=LinkClient)


class LinkConnections(ABC, Generic[Client]):
    """Connections of one link. Implements `bridges.link.LinkHost`, except `ended`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clients: dict[Side, Client] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def _client(
        self, side: Side, uri: AmqpUri, handle: Callable[[list[Event]], None], resumed: Callable[[], None]
    ) -> Client:
        """Return a new connection, not open yet. Raise ConnectionEnded if it cannot be opened."""

    @abstractmethod
    def _act(self, action: Callable[[Link], None]) -> None:
        """Call the link, then carry out what it has decided."""

    # -- LinkHost ---------------------------------------------------------------------------------

    def connect(self, side: Side, uri: AmqpUri) -> None:
        task = self._loop.create_task(self._connect(side, uri))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def hang_up(self) -> None:
        clients, self._clients = self._clients, {}
        for task in self._opening:
            if task is not asyncio.current_task(self._loop):
                task.cancel()
        for client in clients.values():
            client.abort("the link gave the connection up")

    def read_source(self, reading: bool) -> None:
        if (client := self._clients.get(Side.SOURCE)) is not None:
            client.read(reading)

    def writable(self) -> bool:
        client = self._clients.get(Side.DESTINATION)
        return client is not None and client.writable

    # -- internals --------------------------------------------------------------------------------

    async def _connect(self, side: Side, uri: AmqpUri) -> None:
        opened = False
        client: Client

        def handle(events: list[Event]) -> None:
            nonlocal opened
            if self._clients.get(side) is not client:
                return
            if not opened:
                if not any(isinstance(event, Opened) for event in events):
                    # A socket that fails before it is open raises from `open` as well.
                    if not isinstance(client, AsyncioClient):
                        self._act(lambda link: link.receive(side, events, now_ms()))
                    return
                opened = True
                events = [event for event in events if not isinstance(event, Opened)]
                self._act(lambda link: link.connected(side, client.connection, now_ms()))
            self._act(lambda link: link.receive(side, events, now_ms()))

        def resumed() -> None:
            if side is Side.DESTINATION and self._clients.get(side) is client:
                self._act(lambda link: link.proceed(now_ms()))

        try:
            client = self._client(side, uri, handle, resumed)
        except ConnectionEnded as ended:
            self._lost(side, ended.closed)
            return
        self._clients[side] = client
        try:
            await client.open()
        except ConnectionEnded as ended:
            if self._clients.get(side) is client:
                self._lost(side, ended.closed)

    def _lost(self, side: Side, closed: Closed) -> None:
        self._act(lambda link: link.lost(side, closed, now_ms()))

    def _flush(self) -> None:
        for client in list(self._clients.values()):
            client.flush()

    def _arm(self, wake_ms: int | None) -> None:
        """Replace the timer of the link; None: the link waits for no time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ms is not None:
            self._timer = self._loop.call_later(max(0, wake_ms - now_ms()) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._act(lambda link: link.tick(now_ms()))
