"""Dialler of one peer: dials with growing pauses while no link exists."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.peers import peer_limits
from mirrormq.peers.backoff import Backoff
from mirrormq.peers.link_loss import CROSSING, LinkLoss, LossReason
from mirrormq.runtime.peer_link import PeerLink

if TYPE_CHECKING:
    from mirrormq.runtime.peer_links import PeerLinks


class PeerAddress(NamedTuple):
    """Address of a node's listener for links. In TLS its certificate must match `tls_name` (or `host`)."""

    name: str
    host: str
    port: int
    tls_name: str = ""


class PeerDialler:
    """Dialler of one peer. Runs until stopped."""

    def __init__(self, peer_links: PeerLinks, address: PeerAddress) -> None:
        self.address = address
        self.attempt: PeerLink | None = None
        """Connection whose handshake is in progress."""
        self._peer_links = peer_links
        self._backoff = Backoff()
        self._wanted = asyncio.Event()
        self.last_reason: str | None = None
        """Last known reason why no link exists."""
        self._task: asyncio.Task[None] | None = None

    def start(self, linked: bool) -> None:
        """Start dialling; wait first if a link exists already."""
        if not linked:
            self._wanted.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop dialling."""
        if self._task is not None:
            self._task.cancel()
        if self.attempt is not None:
            self.attempt.end(LinkLoss("no longer wanted"))

    def linked(self, link: PeerLink) -> None:
        """Stop dialling because a link exists. Give up another attempt in progress."""
        self._wanted.clear()
        self.last_reason = None
        if self.attempt is not None and self.attempt is not link:
            self.attempt.end(CROSSING)

    def unlinked(self, open_s: float) -> None:
        """Dial again after the link went down."""
        if open_s >= peer_limits.STEADY_LINK_S:
            self._backoff.reset()
        self._wanted.set()

    async def _run(self) -> None:
        """Dial for as long as the process runs. A dialler that ended would isolate its peer until the next
        restart: a node rejects connections from a peer that it seems to dial itself."""
        while True:
            await self._wanted.wait()
            try:
                loss = await self._dial()
            except Exception as error:
                self.attempt, loss = None, LinkLoss(f"the dial attempt failed: {error!r}")
            if loss is not None and loss.reason is not LossReason.CROSSING:
                self._log_reason(loss.text)
            # Pause also after a link that went down at once: otherwise two nodes dial each other in a tight
            # loop.
            if self._wanted.is_set() or loss is not None:
                await asyncio.sleep(self._backoff.next_s(self._peer_links.chance()))

    async def _dial(self) -> LinkLoss | None:
        """Make one attempt. Return None if it opened a link."""
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
            await asyncio.wait_for(connecting, self._peer_links.options.dial_timeout_s)
            return await link.settled
        except (OSError, TimeoutError) as error:
            link.end(LinkLoss("cannot connect"))
            return LinkLoss(f"cannot connect: {error or 'no reply'}")

    def _log_reason(self, reason: str) -> None:
        """Log one line per reason, not one per attempt."""
        if reason != self.last_reason:
            self.last_reason = reason
            self._peer_links.log.warning("no link", peer=self.address.name, reason=reason)
