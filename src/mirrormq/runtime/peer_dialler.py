"""Keeps dialling one peer while there is no link to it, with pauses that grow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.peers import peer_limits
from mirrormq.peers.backoff import Backoff
from mirrormq.runtime.peer_link import PeerLink

if TYPE_CHECKING:
    from mirrormq.runtime.peer_links import PeerLinks

CROSSING = "we dial each other; the other connection stays"
"""Why a connection is given up when both sides dial: no reason to warn anybody."""


class PeerAddress(NamedTuple):
    """Where a node listens for links; in TLS its certificate must be for `tls_name` (or for `host`)."""

    name: str
    host: str
    port: int
    tls_name: str = ""


class PeerDialler:
    """Dials one peer."""

    def __init__(self, peer_links: PeerLinks, address: PeerAddress) -> None:
        self.address = address
        self.attempt: PeerLink | None = None
        """The connection that is shaking hands now."""
        self._peer_links = peer_links
        self._backoff = Backoff()
        self._wanted = asyncio.Event()
        self.last_reason: str | None = None
        """Why there is no link, as far as is known."""
        self._task: asyncio.Task[None] | None = None

    def start(self, linked: bool) -> None:
        """Begin; with a link there is nothing to do yet."""
        if not linked:
            self._wanted.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Dial no more."""
        if self._task is not None:
            self._task.cancel()
        if self.attempt is not None:
            self.attempt.end("not wanted any more")

    def linked(self, link: PeerLink) -> None:
        """There is a link; another attempt under way is given up."""
        self._wanted.clear()
        self.last_reason = None
        if self.attempt is not None and self.attempt is not link:
            self.attempt.end(CROSSING)

    def unlinked(self, lived_s: float) -> None:
        """The link is gone."""
        if lived_s >= peer_limits.STEADY_LINK_S:
            self._backoff.reset()
        self._wanted.set()

    async def _run(self) -> None:
        """For ever: a dialler that ended would leave its peer alone until the node is started again, since
        nobody lets a peer in who seems to be dialled."""
        while True:
            await self._wanted.wait()
            try:
                reason = await self._dial()
            except Exception as error:
                self.attempt, reason = None, f"an attempt failed: {error!r}"
            if reason is not None:
                self._say(reason)
            if self._wanted.is_set() or reason is not None:
                await asyncio.sleep(self._backoff.next_s(self._peer_links.chance()))

    async def _dial(self) -> str | None:
        """One attempt; None if it made a link."""
        loop, address, tls = asyncio.get_running_loop(), self.address, self._peer_links.options.tls
        link = PeerLink(self._peer_links, address.name)
        connecting = loop.create_connection(
            lambda: link,
            address.host,
            address.port,
            ssl=None if tls is None else tls.client,
            server_hostname=None if tls is None else address.tls_name or address.host,
        )
        try:
            await asyncio.wait_for(connecting, peer_limits.DIAL_TIMEOUT_S)
            return await link.settled
        except (OSError, TimeoutError) as error:
            link.end("cannot connect")
            return f"cannot connect: {error or 'no answer'}"

    def _say(self, reason: str) -> None:
        """One line per reason, not one per attempt."""
        if reason not in (self.last_reason, CROSSING):
            self.last_reason = reason
            self._peer_links.log.warning("no link", peer=self.address.name, reason=reason)
