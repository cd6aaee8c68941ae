"""All links of one node: listens, dials, keeps one connection per peer, tells its user what happens.

**One connection per pair.** Both nodes of a pair dial, since either may have started first. When two
connections cross, the one dialled by the node with the smaller name stays, by three rules:

1. When a link opens, an own dial that is still shaking hands is given up. So a proof from a dialler says:
   when I sent this I had no link to you.
2. A node with the smaller name that is shaking hands as dialler refuses the other's proof as *crossing*.
3. A node that has a link and gets a good proof on another connection replaces the link, because by rule 1 the
   peer has lost it; unless the peer's hello was read before the link opened and the link is its own
   dial and its name is the smaller, in which case the two have crossed and the proof is refused. (A
   hello that is read after the link opened is answered after the acceptor opened it too, since an acceptor
   opens first; so rule 1 holds for it.)

So a node that lost a link gets a new one at once, also when its peer has not noticed the loss yet.

**What the user may rely on.** `on_up(peer, session)` and `on_down(peer, reason)` alternate for each peer, and
session numbers grow. Between them messages come in the order they were sent (within each of the two
priorities) and at most once; nothing is left out before the link goes down. What was on its way then is lost
or not, and the next `on_up` is the moment to send again what must arrive. A message to a peer without a link
goes nowhere: the user knows from `on_down`, and `session(peer)` is None.
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
from mirrormq.peers.peer_handshake import PeerHandshake, PeerIdentity, PeerRole
from mirrormq.runtime.peer_dialler import CROSSING, PeerAddress, PeerDialler
from mirrormq.runtime.peer_link import PeerLink, monotonic_ms


class LinkTls(NamedTuple):
    """The contexts of links in TLS."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class LinkListener(Protocol):
    """Who uses the links. All methods are called on the loop and must not block."""

    def on_up(self, peer: str, session: int) -> None: ...

    def on_down(self, peer: str, reason: str) -> None: ...

    def on_message(self, peer: str, payload: Any) -> None: ...

    def on_relief(self, peer: str) -> None:
        """A link that was congested is so no more."""

    def on_slept(self, slept_ms: int) -> None:
        """This node itself did not run for a while."""


@dataclass
class PeerLinkOptions:
    """How a node's links behave. `identity` may be replaced while it runs, for the handshakes to come."""

    identity: PeerIdentity
    cookie: bytes
    timing: DetectorTiming = field(default_factory=DetectorTiming)
    tls: LinkTls | None = None
    message_type: Any = bytes
    """What messages that are not raw bytes may be: a tagged union of msgspec structs."""
    statement: Callable[[], bytes] = bytes
    """What this node states of itself in a handshake; asked for each."""
    admit: Callable[[PeerIdentity], str | None] = lambda peer: None
    """Asked about each peer that knows the cookie; a text refuses it."""


class PeerLinks:
    """The links of one node. `chance` and `entropy` are its sources of randomness."""

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

    # For the user

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (0 asks for a free one)."""
        loop, tls = asyncio.get_running_loop(), self.options.tls
        self._server = await loop.create_server(
            lambda: PeerLink(self),
            host,
            port,
            ssl=None if tls is None else tls.server,
            ssl_handshake_timeout=None if tls is None else peer_limits.HANDSHAKE_TIMEOUT_S,
        )
        self._tick()
        self._beat()
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Let what was sent leave, then close everything."""
        self._stopping = True
        for timer in self._timers.values():
            timer.cancel()
        for dialler in self._diallers.values():
            dialler.stop()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(link.finish("this node stops") for link in list(self._links.values())))
        for link in list(self._pending):
            link.end("this node stops")

    def add_peer(self, address: PeerAddress) -> None:
        """Keep a link to this node, dialling it when there is none."""
        self.remove_dialler(address.name)
        dialler = self._diallers[address.name] = PeerDialler(self, address)
        dialler.start(linked=address.name in self._links)

    def remove_peer(self, name: str) -> None:
        """Dial this node no more and drop the link to it."""
        self.remove_dialler(name)
        if (link := self._links.get(name)) is not None:
            link.end("removed")

    def renew(self, name: str) -> None:
        """Drop the link to this node, so that the two shake hands again."""
        if (link := self._links.get(name)) is not None:
            link.end("to shake hands again")

    def remove_dialler(self, name: str) -> None:
        """Dial this node no more; a link that is there stays."""
        if (dialler := self._diallers.pop(name, None)) is not None:
            dialler.stop()

    def send(self, peer: str, payload: Any, urgent: bool = False) -> None:
        """Send raw bytes, or anything of `message_type`, if there is a link."""
        if (link := self._links.get(peer)) is not None:
            link.send(payload, urgent)

    def flush(self) -> None:
        """Let what was sent leave as soon as this turn of the loop is over, and not one turn later."""
        for link in self._links.values():
            link.flush()

    def congested(self, peer: str) -> bool:
        """Does so much wait for this peer that callers should slow down?"""
        link = self._links.get(peer)
        return link is not None and link.congested

    def queued_bytes(self, peer: str) -> int:
        """How much waits for this peer."""
        link = self._links.get(peer)
        return 0 if link is None else link.queued_bytes

    def session(self, peer: str) -> int | None:
        """The number of the session with this peer, if there is one."""
        link = self._links.get(peer)
        return None if link is None else link.session

    def start_blocker(self, peer: str) -> str:
        """Why there is no link to a peer that is dialled; empty if nobody knows."""
        dialler = self._diallers.get(peer)
        return (dialler.last_reason or "") if dialler is not None else ""

    def statement(self, peer: str) -> bytes:
        """What this peer stated of itself when the link with it came up."""
        link = self._links.get(peer)
        return b"" if link is None else link.statement

    def is_blank(self, peer: str) -> bool:
        """Did this peer belong to no cluster when the link with it came up?"""
        link = self._links.get(peer)
        return link is not None and not link.cluster_id

    @property
    def peers(self) -> list[str]:
        """Who has a link with this node."""
        return sorted(self._links)

    # For links

    def admit_socket(self, link: PeerLink) -> str | None:
        """A socket is open that has proved nothing yet. Says why, if it is not wanted."""
        if self._stopping:
            return "this node stops"
        if link.dialled:
            if (dialler := self._diallers.get(link.peer)) is None or link.peer in self._links:
                return CROSSING
            dialler.attempt = link
            return None
        if len(self._pending) >= peer_limits.PENDING_HANDSHAKES_MAX:
            next(iter(self._pending)).end("too many strangers")
        self._pending[link] = None
        return None

    def handshake(self, link: PeerLink, role: PeerRole) -> PeerHandshake:
        """A fresh handshake for this link."""
        options = self.options
        nonce = self._entropy(peer_limits.NONCE_BYTES)
        identity = options.identity._replace(statement=options.statement())
        return PeerHandshake(
            role, identity, options.cookie, nonce, link.peer, lambda peer: self._objection(link, peer)
        )

    def _objection(self, link: PeerLink, peer: PeerIdentity) -> str | None:
        """May this link become the one link with its peer? See the rules on top."""
        if link.dialled:
            return None
        existing = self._links.get(peer.name)
        if self.options.identity.name < peer.name:
            dialler = self._diallers.get(peer.name)
            if dialler is not None and dialler.attempt is not None and existing is None:
                return CROSSING
            if existing is not None and existing.dialled and link.greeted_after < existing.session:
                return CROSSING
        return self.options.admit(peer)

    def opened(self, link: PeerLink) -> None:
        """The handshake is done: this is the link with its peer from now on."""
        self._pending.pop(link, None)
        if (old := self._links.get(link.peer)) is not None:
            old.end("replaced by a newer connection")
        self.links_opened += 1
        self._links[link.peer] = link
        self.detector.watch(link.peer, monotonic_ms())
        if (dialler := self._diallers.get(link.peer)) is not None:
            dialler.linked(link)
            if dialler.attempt is link:
                dialler.attempt = None
        self.log.info("link up", peer=link.peer, address=link.address, session=link.session_id.hex())
        asyncio.get_running_loop().call_soon(link.heartbeat)
        link.session = self.links_opened
        self._user.on_up(link.peer, link.session)

    def ended(self, link: PeerLink, reason: str) -> None:
        """A link is gone, or never came to be."""
        self._pending.pop(link, None)
        dialler = self._diallers.get(link.peer)
        if dialler is not None and dialler.attempt is link:
            dialler.attempt = None
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            self.detector.forget(link.peer)
            if dialler is not None:
                dialler.unlinked((monotonic_ms() - link.began_ms) / 1000)
            self.log.warning("link down", peer=link.peer, reason=reason, session=link.session_id.hex())
            self._user.on_down(link.peer, reason)
        elif not link.dialled and CROSSING not in reason:
            self._log_stranger(link, reason)

    def deliver(self, link: PeerLink, packed: bool, payload: bytes) -> None:
        """A message has come."""
        self._user.on_message(link.peer, self._decode(payload) if packed else payload)

    def relieved(self, link: PeerLink) -> None:
        """A link is congested no more."""
        self._user.on_relief(link.peer)

    # Time

    def _tick(self) -> None:
        timing = self.options.timing
        self._timers["tick"] = asyncio.get_running_loop().call_later(timing.tick_ms / 1000, self._tick)
        verdict = self.detector.tick(monotonic_ms())
        if verdict.slept_ms:
            self.log.warning("this node did not run for a while", slept_ms=verdict.slept_ms)
            self._user.on_slept(verdict.slept_ms)
        for change in verdict.changes:
            if change.liveness is Liveness.DOWN and (link := self._links.get(change.peer)) is not None:
                link.end(f"nothing heard for {change.silent_ms / 1000:.1f} s")

    def _beat(self) -> None:
        interval_s = self.options.timing.heartbeat_ms / 1000
        self._timers["beat"] = asyncio.get_running_loop().call_later(interval_s, self._beat)
        for link in list(self._links.values()):
            link.heartbeat()

    def _log_stranger(self, link: PeerLink, reason: str) -> None:
        """One line, unless strangers have caused too many lately."""
        now_ms = monotonic_ms()
        if now_ms - self._refusals_since_ms > peer_limits.REFUSALS_LOGGED_WINDOW_S * 1000:
            self._refusals_since_ms, self._refusals_logged = now_ms, 0
        self._refusals_logged += 1
        if self._refusals_logged <= peer_limits.REFUSALS_LOGGED_MAX:
            name = repr(link.peer)[: peer_limits.NAME_BYTES_MAX]
            self.log.warning("no link for a stranger", address=link.address, says_it_is=name, reason=reason)
