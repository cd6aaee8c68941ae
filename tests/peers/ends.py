"""Nodes of a test: real links on loopback in this process, with a record of all events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mirrormq.peers.link_loss import LinkLoss
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_links import PeerLinkOptions, PeerLinks

COOKIE = b"a shared secret"


class Ping(msgspec.Struct, tag=1, array_like=True, frozen=True):
    number: int


class Text(msgspec.Struct, tag=2, array_like=True, frozen=True):
    text: str


class Log:
    """Log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))

    warning = error = info

    def having(self, text: str) -> list[str]:
        return [line for event, facts in self.lines if text in (line := f"{event} {facts}")]


class End:
    """One node: its links and the events reported to their user."""

    def __init__(self, name: str, cookie: bytes = COOKIE, **options: Any) -> None:
        self.name = name
        self.log = Log()
        self.events: list[tuple[str, str, Any]] = []
        """("up", peer, session), ("down", peer, reason), ("message", peer, payload), in order."""
        chosen = PeerLinkOptions(PeerIdentity(name), cookie, message_type=Ping | Text, **options)
        self.links = PeerLinks(chosen, self, self.log)
        self.port = 0

    def on_up(self, peer: str, session: int) -> None:
        self.events.append(("up", peer, session))

    def on_down(self, peer: str, loss: LinkLoss) -> None:
        self.events.append(("down", peer, loss.text))

    def on_message(self, peer: str, payload: Any) -> None:
        self.events.append(("message", peer, payload))

    def on_relief(self, peer: str) -> None:
        self.events.append(("relief", peer, None))

    def on_slept(self, slept_ms: int) -> None:
        self.events.append(("slept", "", slept_ms))

    def of(self, kind: str, peer: str) -> list[Any]:
        return [value for event, who, value in self.events if (event, who) == (kind, peer)]

    async def start(self, port: int = 0) -> None:
        self.port = await self.links.start("127.0.0.1", port)

    def address(self) -> PeerAddress:
        return PeerAddress(self.name, "127.0.0.1", self.port, "localhost")

    def dial(self, other: End) -> None:
        self.links.add_peer(other.address())


@asynccontextmanager
async def started(*ends: End) -> AsyncIterator[None]:
    try:
        for end in ends:
            await end.start()
        yield
    finally:
        await asyncio.gather(*(end.links.stop() for end in ends))


async def until(condition: Callable[[], object], timeout_s: float = 40.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


def linked(*ends: End) -> bool:
    """Return whether each node has a link with all others."""
    names = sorted(end.name for end in ends)
    return all(end.links.peers == [name for name in names if name != end.name] for end in ends)
