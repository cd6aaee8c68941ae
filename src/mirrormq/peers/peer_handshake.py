"""Peer handshake: two nodes prove to each other that they know the cookie, without sending it.

    dialler                                     acceptor
    HELLO name, wanted name, cluster, nonce  →
                                             ←  HELLO name, wanted name, cluster, nonce
    PROOF HMAC(cookie, "dialler", hellos)    →
                                             ←  PROOF HMAC(cookie, "acceptor", hellos)

Both proofs are HMAC-SHA256 over the role of their sender and over *both* hellos as sent on the wire:
versions, names, clusters and nonces. Consequences:

- A replay fails, because the nonce of the verifying side is new each time.
- A reflection fails, because a proof of one role is not valid for the other. A nonce or a name that comes
  back to its sender is refused as well.
- A hello cannot be changed in transit: the two sides would prove different things.
- The dialler proves first. A stranger who connects learns a name and a nonce, and nothing derived from the
  cookie. An offline attack on the cookie has no data to work with.

The handshake does not give secrecy or integrity of later messages. An attacker who can change packets
between two nodes can wait for the handshake to end. On an untrusted network the link runs in TLS.

Every message is bounded (a length of two bytes, at most `HANDSHAKE_MESSAGE_BYTES_MAX`). The first bytes of
any other protocol are refused at once. A refusal is one short sentence. A reason code follows after a zero
byte if the peer has to know the reason (`LossReason.CROSSING`). An empty cluster id means "of no
cluster yet" and matches every other.

A hello begins with the oldest protocol version that its node accepts, and contains the node's own version.
Two nodes work together if each accepts the other's version (`protocol_version`).
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import msgspec

from mirrormq.peers import peer_limits
from mirrormq.peers.link_loss import LinkLoss, LossReason
from mirrormq.protocol_version import PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST

_HEAD = struct.Struct(">HB")
_HELLO, _PROOF, _REFUSAL = 1, 2, 3
_MAGIC = b"MMQL"
_LABEL = b"mirrormq interlink"


class PeerRole(enum.Enum):
    """Side of a connection: the node that dialled, or the one that accepted."""

    DIALLER = b"dialler"
    ACCEPTOR = b"acceptor"

    @property
    def other(self) -> PeerRole:
        return PeerRole.ACCEPTOR if self is PeerRole.DIALLER else PeerRole.DIALLER


class PeerIdentity(NamedTuple):
    """Identity that a node announces."""

    name: str
    cluster_id: str = ""
    statement: bytes = b""
    """Durable state of the node, encoded by the user of the links; empty if it states none."""
    oldest: int = PROTOCOL_VERSION_OLDEST
    """Oldest protocol version that the node accepts."""
    version: int = PROTOCOL_VERSION


class _Hello(msgspec.Struct, array_like=True, frozen=True):
    name: str
    wanted: str
    cluster_id: str
    nonce: bytes
    statement: bytes = b""
    version: int = 0
    """Nodes of version 2 do not send it: theirs is the byte in front of the hello."""


class HandshakeRefused(Exception):
    """Refusal of the other side; text and reason may be sent to it."""

    def __init__(self, text: str, reason: LossReason = LossReason.ENDED) -> None:
        super().__init__(text)
        self.reason = reason


_decode_hello = msgspec.msgpack.Decoder(_Hello).decode


def no_objection(peer: PeerIdentity) -> LinkLoss | None:
    """Accept every peer that has proved to know the cookie."""
    return None


class PeerHandshake:
    """One side of one handshake: bytes in, bytes out. `established` or `refusal` tells how it ended.

    `nonce` must be `NONCE_BYTES` of fresh randomness. `expected` is the name that the dialler dials.
    `admit` is called at the last moment before this side commits itself: by the dialler before its proof,
    by the acceptor before its own, after the peer's proof was verified. It may object with a reason.
    """

    def __init__(
        self,
        role: PeerRole,
        me: PeerIdentity,
        cookie: bytes,
        nonce: bytes,
        expected: str = "",
        admit: Callable[[PeerIdentity], LinkLoss | None] = no_objection,
    ) -> None:
        if not cookie or len(nonce) != peer_limits.NONCE_BYTES:
            raise ValueError("a handshake needs a cookie and a nonce")
        if max(len(text.encode()) for text in (*me[:2], expected)) > peer_limits.NAME_BYTES_MAX:
            raise ValueError("a node's name or its cluster's id is too long")
        self.role = role
        self.peer: PeerIdentity | None = None
        """Identity that the other side announces; authenticated once `established`."""
        self.established = False
        self.refusal: str | None = None
        self.refusal_reason = LossReason.ENDED
        self.refused_by_peer = False
        self.session_id = b""
        """Identifier of this session on both sides."""
        self.rest = b""
        """Bytes received after the handshake."""
        self._me, self._cookie, self._nonce, self._admit = me, cookie, nonce, admit
        self._expected = expected
        self._input = b""
        self._my_hello = self._peer_hello = b""

    def start(self) -> bytes:
        """Return the first bytes to send: the dialler's hello."""
        return self._hello(self._expected) if self.role is PeerRole.DIALLER else b""

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the other side and return the bytes to send. Not to be called after the end."""
        reply = b""
        # Keep one message at most: a peer that has not authenticated must not make this node buffer more.
        self._input += data[: peer_limits.HANDSHAKE_MESSAGE_BYTES_MAX + _HEAD.size]
        beyond = data[peer_limits.HANDSHAKE_MESSAGE_BYTES_MAX + _HEAD.size :]
        try:
            while not self.established and (message := self._next_message()) is not None:
                reply += self._process(*message)
            if self.established:
                self.rest, self._input = self._input + beyond, b""
            elif beyond:
                raise HandshakeRefused("too many bytes before the proof")
        except HandshakeRefused as refused:
            self.refusal, self.refusal_reason = str(refused), refused.reason
            self._input = b""
            return b"" if self.refused_by_peer else reply + _framed(_REFUSAL, self._encoded_refusal())
        return reply

    def _next_message(self) -> tuple[int, bytes] | None:
        """Return the next complete message. Input that cannot become one is refused as early as possible."""
        if len(self._input) < _HEAD.size:
            return None
        length, kind = _HEAD.unpack_from(self._input)
        if length > peer_limits.HANDSHAKE_MESSAGE_BYTES_MAX or kind not in (_HELLO, _PROOF, _REFUSAL):
            raise HandshakeRefused("not a MirrorMQ link")
        end = _HEAD.size + length
        if len(self._input) < end:
            return None
        body, self._input = self._input[_HEAD.size : end], self._input[end:]
        return kind, body

    def _process(self, kind: int, body: bytes) -> bytes:
        if kind == _REFUSAL:
            self.refused_by_peer = True
            text, _, code = body[: peer_limits.REFUSAL_BYTES_MAX].decode("ascii", "replace").partition("\0")
            crossing = code == LossReason.CROSSING.value
            raise HandshakeRefused(text, LossReason.CROSSING if crossing else LossReason.ENDED)
        if (kind == _HELLO) != (self.peer is None):
            raise HandshakeRefused("messages out of order")
        return self._on_hello(body) if kind == _HELLO else self._on_proof(body)

    def _on_hello(self, body: bytes) -> bytes:
        oldest, version, hello = self._read_hello(body)
        if hello.name == self._me.name or hmac.compare_digest(hello.nonce, self._nonce):
            raise HandshakeRefused("that is my own name or challenge")
        if hello.wanted != self._me.name:
            raise HandshakeRefused("another node's name is wanted")
        if self._expected and hello.name != self._expected:
            raise HandshakeRefused("another node answers at this address")
        if hello.cluster_id and self._me.cluster_id and hello.cluster_id != self._me.cluster_id:
            raise HandshakeRefused("a node of another cluster")
        self.peer = PeerIdentity(hello.name, hello.cluster_id, hello.statement, oldest, version)
        self._peer_hello = body
        if self.role is PeerRole.ACCEPTOR:
            return self._hello(hello.name)
        self._check_admission()
        return _framed(_PROOF, self._proof(self.role))

    def _on_proof(self, body: bytes) -> bytes:
        if not hmac.compare_digest(body, self._proof(self.role.other)):
            raise HandshakeRefused("the cookies differ")
        reply = b""
        if self.role is PeerRole.ACCEPTOR:
            self._check_admission()
            reply = _framed(_PROOF, self._proof(self.role))
        self.established = True
        self.session_id = self._keyed(b"session")[:8]
        return reply

    def _check_admission(self) -> None:
        assert self.peer is not None
        if (objection := self._admit(self.peer)) is not None:
            raise HandshakeRefused(objection.text, objection.reason)

    def _encoded_refusal(self) -> bytes:
        crossing = self.refusal_reason is LossReason.CROSSING
        return (
            f"{self.refusal}\0{self.refusal_reason.value}".encode()
            if crossing
            else f"{self.refusal}".encode()
        )

    def _hello(self, wanted: str) -> bytes:
        me = self._me
        hello = _Hello(me.name, wanted, me.cluster_id, self._nonce, me.statement, me.version)
        self._my_hello = _MAGIC + bytes([me.oldest]) + msgspec.msgpack.encode(hello)
        return _framed(_HELLO, self._my_hello)

    def _read_hello(self, body: bytes) -> tuple[int, int, _Hello]:
        """Return the oldest version that the peer accepts, its own version, and its hello. A hello that is
        too new is not decoded: later versions may have another one."""
        if not body.startswith(_MAGIC) or len(body) == len(_MAGIC):
            raise HandshakeRefused("not a MirrorMQ link")
        oldest = body[len(_MAGIC)]
        if oldest > self._me.version:
            self._refuse_version(f"{oldest} or later")
        try:
            hello = _checked(_decode_hello(body[len(_MAGIC) + 1 :]))
        except (msgspec.MsgspecError, ValueError):
            raise HandshakeRefused("a hello that cannot be read") from None
        version = hello.version or oldest
        if version < self._me.oldest:
            self._refuse_version(str(version))
        return oldest, version, hello

    def _refuse_version(self, theirs: str) -> NoReturn:
        mine = " to ".join(map(str, sorted({self._me.oldest, self._me.version})))
        raise HandshakeRefused(
            f"version {theirs} of the cluster protocol meets version {mine}: upgrade the older node first"
        )

    def _proof(self, role: PeerRole) -> bytes:
        return self._keyed(role.value)

    def _keyed(self, purpose: bytes) -> bytes:
        hellos = [self._my_hello, self._peer_hello]
        if self.role is PeerRole.ACCEPTOR:
            hellos.reverse()
        text = b"".join(struct.pack(">H", len(part)) + part for part in (_LABEL, purpose, *hellos))
        return hmac.digest(self._cookie, text, hashlib.sha256)


def _checked(hello: _Hello) -> _Hello:
    texts = (hello.name, hello.wanted, hello.cluster_id)
    too_long = any(len(text.encode()) > peer_limits.NAME_BYTES_MAX for text in texts)
    too_long = too_long or len(hello.statement) > peer_limits.STATEMENT_BYTES_MAX
    if not hello.name or too_long or len(hello.nonce) != peer_limits.NONCE_BYTES:
        raise HandshakeRefused("a hello that cannot be read")
    return hello


def _framed(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body
