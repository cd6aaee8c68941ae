"""Peer links of one node: listens, dials, keeps one connection per peer, reports events to its user.

**One connection per pair.** Both nodes of a pair dial, since either may have started first. When two
connections cross, the one dialled by the node with the smaller name stays, by three rules:

1. When a link opens, the node gives up its own dial to that peer that is still in its handshake. A proof
   from a dialler therefore means: when the dialler sent it, it had no link to this node.
2. A node with the smaller name whose own dial is in its handshake refuses the other's proof as *crossing*.
3. A node that has a link and receives a valid proof on another connection replaces the link: by rule 1 the
   peer has lost it. One case is excepted: the node read the peer's hello before the link opened, the link is
   the node's own dial, and the node's name is the smaller. Then the two have crossed and the node refuses
   the proof. (A hello that is read after the link opened is answered after the acceptor opened it too, since
   an acceptor opens first. Rule 1 holds for it.)

A node that lost a link therefore gets a new one at once, even if its peer has not noticed the loss yet.

**Guarantees for the user.** `on_up(peer, session)` and `on_down(peer, loss)` alternate for each peer,
and session numbers grow. Between them messages arrive at most once, and in the order they were sent within
each of the two priorities. No message is left out before the link goes down. Messages in transit at that
moment may be lost; at the next `on_up` the user sends again what must arrive. A message to a peer without
a link is discarded: the user knows from `on_down`, and `session(peer)` is None.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from mirrormq.peers import peer_limits
from mirrormq.peers.failure_detector import DetectorTiming, FailureDetector, Liveness
from mirrormq.peers.link_loss import CROSSING, LinkLoss, LossReason, silence
from mirrormq.peers.peer_handshake import PeerHandshake, PeerIdentity, PeerRole
from mirrormq.protocol_version import PROTOCOL_VERSION_OLDEST
from mirrormq.runtime.peer_dialler import PeerAddress, PeerDialler
from mirrormq.runtime.peer_link import PeerLink, monotonic_ms


class LinkTls(NamedTuple):
    """TLS contexts of peer links."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class LinkListener(Protocol):
    """User of the links. All methods are called on the loop and must not block."""

    def on_up(self, peer: str, session: int) -> None: ...

    def on_down(self, peer: str, loss: LinkLoss) -> None: ...

    def on_message(self, peer: str, payload: Any) -> None: ...

    def on_relief(self, peer: str) -> None:
        """React to the end of congestion on a link."""

    def on_slept(self, slept_ms: int) -> None:
        """React to a pause of this node itself, such as a suspended machine."""


@dataclass
class PeerLinkOptions:
    """Options of a node's links. `identity` may be replaced at run time; later handshakes use it."""

    identity: PeerIdentity
    cookie: bytes
    timing: DetectorTiming = field(default_factory=DetectorTiming)
    tls: LinkTls | None = None
    message_type: Any = bytes
    """Type of messages other than raw bytes: a tagged union of msgspec structs."""
    statement: Callable[[], bytes] = bytes
    """Returns the statement about itself that this node sends in each handshake."""
    oldest: Callable[[], int] = lambda: PROTOCOL_VERSION_OLDEST
    """Returns the oldest protocol version that this node accepts of a peer."""
    admit: Callable[[PeerIdentity], str | None] = lambda peer: None
    """Called for each peer that knows the cookie; a returned text refuses the peer."""
    dial_timeout_s: float = peer_limits.DIAL_TIMEOUT_S
    handshake_timeout_s: float = peer_limits.HANDSHAKE_TIMEOUT_S
    queued_bytes_max: int = peer_limits.QUEUED_BYTES_MAX


class PeerLinks:
    """All links of one node. `chance` and `entropy` are its sources of randomness."""

    def __init__(
        self,
        options: PeerLinkOptions,
        user: LinkListener,
        log: Any,
        chance: Callable[[], float] = random.random,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.options = options
        self.log = log
        self.chance = chance
        self.detector = FailureDetector(options.timing, monotonic_ms())
        self.links_opened = 0
        self._user = user
        self._entropy = entropy
        self._decode = msgspec.msgpack.Decoder(options.message_type).decode
        self._links: dict[str, PeerLink] = {}
        self._diallers: dict[str, PeerDialler] = {}
        self._pending: dict[PeerLink, None] = {}
        self._server: asyncio.Server | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._refusals_logged = 0
        self._refusals_since_ms = 0
        self._stopping = False

    # -- used by the node -----------------------------------------------------------------------

    async def start(self, host: str, port: int) -> int:
        """Listen for peers. Return the port (0 selects a free one)."""
        loop, tls = asyncio.get_running_loop(), self.options.tls
        self._server = await loop.create_server(
            lambda: PeerLink(self),
            host,
            port,
            ssl=None if tls is None else tls.server,
            ssl_handshake_timeout=None if tls is None else self.options.handshake_timeout_s,
        )
        self._tick()
        self._beat()
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close everything after sent messages have left."""
        self._stopping = True
        for timer in self._timers.values():
            timer.cancel()
        for dialler in self._diallers.values():
            dialler.stop()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(link.finish("this node stops") for link in list(self._links.values())))
        for link in list(self._pending):
            link.end(LinkLoss("this node stops"))

    def add_peer(self, address: PeerAddress) -> None:
        """Keep a link to this peer, and dial it while there is none."""
        self.remove_dialler(address.name)
        dialler = self._diallers[address.name] = PeerDialler(self, address)
        dialler.start(linked=address.name in self._links)

    def remove_peer(self, name: str) -> None:
        """Stop dialling this peer and close the link to it."""
        self.remove_dialler(name)
        if (link := self._links.get(name)) is not None:
            link.end(LinkLoss("removed"))

    def renew(self, name: str) -> None:
        """Close the link to this peer, so that both repeat the handshake."""
        if (link := self._links.get(name)) is not None:
            link.end(LinkLoss("to repeat the handshake"))

    def remove_dialler(self, name: str) -> None:
        """Stop dialling this peer. An existing link stays open."""
        if (dialler := self._diallers.pop(name, None)) is not None:
            dialler.stop()

    def send(self, peer: str, payload: Any, urgent: bool = False) -> None:
        """Send raw bytes or a value of `message_type`, if a link exists."""
        if (link := self._links.get(peer)) is not None:
            link.send(payload, urgent)

    def flush(self) -> None:
        """Write sent messages at the end of this turn of the loop, and not one turn later."""
        for link in self._links.values():
            link.flush()

    def congested(self, peer: str) -> bool:
        """Return whether the output for this peer is so large that callers should slow down."""
        link = self._links.get(peer)
        return link is not None and link.congested

    def queued_bytes(self, peer: str) -> int:
        """Return the bytes that wait for this peer."""
        link = self._links.get(peer)
        return 0 if link is None else link.queued_bytes

    def session(self, peer: str) -> int | None:
        """Return the number of the session with this peer, or None without a link."""
        link = self._links.get(peer)
        return None if link is None else link.session

    def start_blocker(self, peer: str) -> str:
        """Return why there is no link to a dialled peer; empty if the reason is unknown."""
        dialler = self._diallers.get(peer)
        return (dialler.last_reason or "") if dialler is not None else ""

    def statement(self, peer: str) -> bytes:
        """Return the statement that this peer sent in its handshake."""
        link = self._links.get(peer)
        return b"" if link is None else link.statement

    def is_blank(self, peer: str) -> bool:
        """Return whether this peer belonged to no cluster when its link came up."""
        link = self._links.get(peer)
        return link is not None and not link.cluster_id

    @property
    def peers(self) -> list[str]:
        """Names of the peers with a link to this node, sorted."""
        return sorted(self._links)

    # -- used by links --------------------------------------------------------------------------

    def admit_socket(self, link: PeerLink) -> LinkLoss | None:
        """Register a socket that has not authenticated yet. Return the reason if it is not wanted."""
        if self._stopping:
            return LinkLoss("this node stops")
        if link.dialled:
            if (dialler := self._diallers.get(link.peer)) is None or link.peer in self._links:
                return CROSSING
            dialler.attempt = link
            return None
        if len(self._pending) >= peer_limits.PENDING_HANDSHAKES_MAX:
            next(iter(self._pending)).end(LinkLoss("too many unauthenticated connections"))
        self._pending[link] = None
        return None

    def handshake(self, link: PeerLink, role: PeerRole) -> PeerHandshake:
        """Return a new handshake for this link."""
        options = self.options
        nonce = self._entropy(peer_limits.NONCE_BYTES)
        identity = options.identity._replace(statement=options.statement(), oldest=options.oldest())
        return PeerHandshake(
            role, identity, options.cookie, nonce, link.peer, lambda peer: self._objection(link, peer)
        )

    def _objection(self, link: PeerLink, peer: PeerIdentity) -> LinkLoss | None:
        """Return the reason why this link may not become the one link with its peer, by the rules in the
        module docstring."""
        if link.dialled:
            return None
        existing = self._links.get(peer.name)
        if self.options.identity.name < peer.name:
            dialler = self._diallers.get(peer.name)
            if dialler is not None and dialler.attempt is not None and existing is None:
                return CROSSING
            if existing is not None and existing.dialled and link.greeted_after < existing.session:
                return CROSSING
        objection = self.options.admit(peer)
        return None if objection is None else LinkLoss(objection)

    def opened(self, link: PeerLink) -> None:
        """Make a link with a completed handshake the one link with its peer."""
        self._pending.pop(link, None)
        if (old := self._links.get(link.peer)) is not None:
            old.end(LinkLoss("replaced by a newer connection"))
        self.links_opened += 1
        self._links[link.peer] = link
        self.detector.watch(link.peer, monotonic_ms())
        if (dialler := self._diallers.get(link.peer)) is not None:
            dialler.linked(link)
            if dialler.attempt is link:
                dialler.attempt = None
        self.log.info(
            "link up", peer=link.peer, address=link.address, session=link.session_id.hex(),
            version=link.version,
        )  # fmt: skip
        asyncio.get_running_loop().call_soon(link.heartbeat)
        link.session = self.links_opened
        self._user.on_up(link.peer, link.session)

    def ended(self, link: PeerLink, loss: LinkLoss) -> None:
        """Report that a link closed, or that a connection never became a link."""
        self._pending.pop(link, None)
        dialler = self._diallers.get(link.peer)
        if dialler is not None and dialler.attempt is link:
            dialler.attempt = None
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            self.detector.forget(link.peer)
            if dialler is not None:
                dialler.unlinked((monotonic_ms() - link.began_ms) / 1000)
            self.log.warning("link down", peer=link.peer, reason=loss.text, session=link.session_id.hex())
            self._user.on_down(link.peer, loss)
        elif not link.dialled and loss.reason is not LossReason.CROSSING:
            self._log_refusal(link, loss.text)

    def deliver(self, link: PeerLink, packed: bool, payload: bytes) -> None:
        """Pass a message to the user."""
        self._user.on_message(link.peer, self._decode(payload) if packed else payload)

    def relieved(self, link: PeerLink) -> None:
        """Report the end of congestion to the user."""
        self._user.on_relief(link.peer)

    # -- timers ---------------------------------------------------------------------------------

    def _tick(self) -> None:
        timing = self.options.timing
        self._timers["tick"] = asyncio.get_running_loop().call_later(timing.tick_ms / 1000, self._tick)
        verdict = self.detector.tick(monotonic_ms())
        if verdict.slept_ms:
            self.log.warning("this node was paused", slept_ms=verdict.slept_ms)
            self._user.on_slept(verdict.slept_ms)
        for change in verdict.changes:
            if change.liveness is Liveness.DOWN and (link := self._links.get(change.peer)) is not None:
                link.end(silence(change.silent_ms))

    def _beat(self) -> None:
        interval_s = self.options.timing.heartbeat_ms / 1000
        self._timers["beat"] = asyncio.get_running_loop().call_later(interval_s, self._beat)
        for link in list(self._links.values()):
            link.heartbeat()

    def _log_refusal(self, link: PeerLink, reason: str) -> None:
        """Log a refused connection, unless too many were logged lately."""
        now_ms = monotonic_ms()
        if now_ms - self._refusals_since_ms > peer_limits.REFUSALS_LOGGED_WINDOW_S * 1000:
            self._refusals_since_ms, self._refusals_logged = now_ms, 0
        self._refusals_logged += 1
        if self._refusals_logged <= peer_limits.REFUSALS_LOGGED_MAX:
            name = repr(link.peer)[: peer_limits.NAME_BYTES_MAX]
            self.log.warning(
                "refused a peer connection", address=link.address, claimed_name=name, reason=reason
            )
