"""Peer handshake: only a peer that knows the cookie is accepted."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.peers import peer_limits
from mirrormq.peers.link_loss import CROSSING, LinkLoss, LossReason
from mirrormq.peers.peer_handshake import PeerHandshake, PeerIdentity, PeerRole

COOKIE = b"the cookie"
NONCE_A, NONCE_B, NONCE_C = (bytes([number]) * peer_limits.NONCE_BYTES for number in (1, 2, 3))
A, B = PeerIdentity("a@host", "cluster"), PeerIdentity("b@host", "cluster")


def dialler(
    me: PeerIdentity = A, cookie: bytes = COOKIE, expected: str = "b@host", nonce: bytes = NONCE_A
) -> PeerHandshake:
    return PeerHandshake(PeerRole.DIALLER, me, cookie, nonce, expected)


def acceptor(me: PeerIdentity = B, cookie: bytes = COOKIE, nonce: bytes = NONCE_B) -> PeerHandshake:
    return PeerHandshake(PeerRole.ACCEPTOR, me, cookie, nonce)


def converse(left: PeerHandshake, right: PeerHandshake) -> tuple[list[bytes], list[bytes]]:
    """Exchange messages until both sides are silent. Return the bytes that each side sent."""
    said: tuple[list[bytes], list[bytes]] = ([], [])
    message = left.start()
    sides = [(right, 0), (left, 1)]
    while message:
        side, sender = sides[0]
        said[sender].append(message)
        message = side.receive(message) if side.refusal is None and not side.established else b""
        sides.reverse()
    return said


def test_two_nodes_with_one_cookie_know_each_other_and_name_the_session_alike() -> None:
    left, right = dialler(), acceptor()
    converse(left, right)
    assert left.established and right.established
    assert (left.peer, right.peer) == (B, A)
    assert left.session_id == right.session_id != b""


def test_the_cookie_is_never_sent() -> None:
    left, right = dialler(), acceptor()
    assert all(COOKIE not in message for side in converse(left, right) for message in side)


def test_bytes_may_come_one_by_one_and_messages_may_follow_at_once() -> None:
    left, right = dialler(), acceptor()
    hello = b"".join(right.receive(bytes([octet])) for octet in left.start())
    proof = b"".join(left.receive(bytes([octet])) for octet in hello)
    answer = right.receive(proof + b"first frames of the dialler" * 100)
    assert right.established and right.rest == b"first frames of the dialler" * 100
    left.receive(answer + b"first frames")
    assert left.established and left.rest == b"first frames"


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (dialler(cookie=b"guess"), acceptor(), "cookies differ"),
        (dialler(), acceptor(cookie=b"guess"), "cookies differ"),
        (dialler(expected="c@host"), acceptor(), "another node's name"),
        (dialler(PeerIdentity("b@host"), expected="b@host"), acceptor(), "my own name"),
        (dialler(nonce=NONCE_B), acceptor(), "my own name or challenge"),
        (dialler(PeerIdentity("a@host", "other")), acceptor(), "another cluster"),
    ],
)  # fmt: skip
def test_peers_that_do_not_fit_are_refused(left: PeerHandshake, right: PeerHandshake, reason: str) -> None:
    converse(left, right)
    assert not left.established and not right.established
    assert reason in (left.refusal or "") and reason in (right.refusal or "")


def test_a_node_of_no_cluster_may_talk_to_any() -> None:
    left, right = dialler(PeerIdentity("a@host", "")), acceptor()
    converse(left, right)
    assert right.established and right.peer == PeerIdentity("a@host", "")


def test_a_dialler_notices_that_another_node_answers() -> None:
    left = dialler()
    intruder = PeerHandshake(PeerRole.ACCEPTOR, PeerIdentity("b@host"), COOKIE, NONCE_B)
    hello = intruder.receive(left.start())
    left.receive(hello.replace(b"b@host", b"x@host", 1))
    assert left.refusal == "another node answers at this address"


def versions(name: str, oldest: int, version: int) -> PeerIdentity:
    return PeerIdentity(name, "", b"", oldest, version)


@pytest.mark.parametrize("left_versions", [(2, 3), (3, 3), (3, 4)])
@pytest.mark.parametrize("right_versions", [(2, 2), (2, 3), (3, 3), (3, 4), (4, 5)])
def test_nodes_talk_if_each_accepts_the_others_version(
    left_versions: tuple[int, int], right_versions: tuple[int, int]
) -> None:
    left = dialler(versions("a@host", *left_versions))
    right = PeerHandshake(PeerRole.ACCEPTOR, versions("b@host", *right_versions), COOKIE, NONCE_B)
    converse(left, right)
    fits = left_versions[0] <= right_versions[1] and right_versions[0] <= left_versions[1]
    assert left.established == right.established == fits
    if fits:
        assert left.peer == versions("b@host", *right_versions)
        assert right.peer == versions("a@host", *left_versions)
    else:
        assert left.refusal is not None and left.refusal == right.refusal
        assert "of the cluster protocol meets version" in left.refusal
        assert left.refusal.endswith(": upgrade the older node first")
        assert len(left.refusal) <= peer_limits.REFUSAL_BYTES_MAX


def test_a_hello_without_a_version_has_it_in_front() -> None:
    """Nodes of version 2 send five fields and ignore the sixth."""
    sent: list[object] = ["a@host", "b@host", "", NONCE_A, b""]
    body = b"MMQL\x02" + msgspec.msgpack.encode(sent)
    right = acceptor()
    right.receive(struct.pack(">HB", len(body), 1) + body)
    assert right.peer == versions("a@host", 2, 2)
    newer = PeerHandshake(PeerRole.ACCEPTOR, versions("b@host", 3, 3), COOKIE, NONCE_B)
    reply = newer.receive(struct.pack(">HB", len(body), 1) + body)
    assert newer.refusal == (
        "version 2 of the cluster protocol meets version 3: upgrade the older node first"
    )
    assert newer.refusal.encode() in reply


def test_a_hello_of_a_later_version_is_not_decoded() -> None:
    body = b"MMQL\x09 of another shape"
    right = acceptor()
    right.receive(struct.pack(">HB", len(body), 1) + body)
    assert right.refusal == (
        "version 9 or later of the cluster protocol meets version 2 to 3: upgrade the older node first"
    )


def test_a_replayed_dialler_does_not_get_in() -> None:
    (hello, proof), _ = converse(dialler(), acceptor())
    victim = acceptor(nonce=NONCE_C)
    victim.receive(hello)
    victim.receive(proof)
    assert victim.refusal == "the cookies differ"


def test_a_replayed_acceptor_is_not_believed() -> None:
    _, (hello, proof) = converse(dialler(), acceptor())
    victim = dialler(nonce=NONCE_C)
    victim.start()
    victim.receive(hello)
    victim.receive(proof)
    assert victim.refusal == "the cookies differ"


def test_a_proof_sent_back_to_its_sender_proves_nothing() -> None:
    """Attack as acceptor without the cookie, returning the dialler's own proof."""
    left, poser = dialler(), acceptor(cookie=b"unknown")
    proof = left.receive(poser.receive(left.start()))
    left.receive(proof)
    assert left.refusal == "the cookies differ"


def test_a_challenge_reflected_through_a_second_connection_is_refused() -> None:
    """Attack with two connections: Eve dials B and lets B answer its own challenge on a connection that
    poses as B's dial."""
    first = acceptor()
    challenge = first.receive(dialler(cookie=b"eve").start())
    second = PeerHandshake(PeerRole.DIALLER, B, COOKIE, NONCE_C, "a@host")
    second.start()
    second.receive(challenge)
    assert second.refusal == "that is my own name or challenge"


def test_an_objection_stops_the_dialler_before_it_proves_anything() -> None:
    left = PeerHandshake(PeerRole.DIALLER, A, COOKIE, NONCE_A, "b@host", lambda peer: LinkLoss("no need"))
    right = acceptor()
    said, _ = converse(left, right)
    assert left.refusal == "no need" and right.refusal == "no need" and right.refused_by_peer
    assert len(said) == 2 and len(said[1]) < peer_limits.REFUSAL_BYTES_MAX


def test_both_sides_know_a_crossing_by_its_reason_and_not_by_its_text() -> None:
    for objection in (LinkLoss("any words", LossReason.CROSSING), LinkLoss(CROSSING.text)):
        left = dialler()
        right = PeerHandshake(PeerRole.ACCEPTOR, B, COOKIE, NONCE_B, admit={A: objection}.get)
        converse(left, right)
        assert (left.refusal, left.refusal_reason) == (objection.text, objection.reason)
        assert (right.refusal, right.refusal_reason) == (objection.text, objection.reason)


def test_the_acceptor_asks_only_about_peers_that_have_proved_themselves() -> None:
    asked: list[PeerIdentity] = []
    right = PeerHandshake(PeerRole.ACCEPTOR, B, COOKIE, NONCE_B, admit=lambda peer: asked.append(peer))
    converse(dialler(cookie=b"guess"), right)
    assert asked == []


@given(st.binary(min_size=1, max_size=3000), st.booleans())
def test_garbage_gets_a_short_refusal_or_silence(garbage: bytes, with_hello: bool) -> None:
    side = acceptor()
    if with_hello:
        side.receive(dialler().start())
    answer = side.receive(garbage)
    assert not side.established
    assert len(answer) <= peer_limits.HANDSHAKE_MESSAGE_BYTES_MAX
    if side.refusal is not None:
        assert len(side.refusal.encode()) <= peer_limits.REFUSAL_BYTES_MAX


@given(st.data())
def test_any_changed_byte_of_any_message_is_noticed(data: st.DataObject) -> None:
    left, right = dialler(), acceptor()
    messages = [left.start()]
    messages.append(right.receive(messages[0]))
    messages.append(left.receive(messages[1]))
    messages.append(right.receive(messages[2]))
    which = data.draw(st.integers(0, 3))
    place = data.draw(st.integers(3, len(messages[which]) - 1))
    flip = data.draw(st.integers(1, 255))

    def on_the_way(number: int, message: bytes) -> bytes:
        if number != which or place >= len(message):
            return message
        return message[:place] + bytes([message[place] ^ flip]) + message[place + 1 :]

    left, right = dialler(), acceptor()
    message, sides = left.start(), [right, left]
    for number in range(4):
        side = sides[number % 2]
        if not message or side.refusal is not None:
            break
        message = side.receive(on_the_way(number, message))
    assert not (left.established and right.established)


def test_a_stranger_s_long_message_is_refused_by_its_head() -> None:
    side = acceptor()
    assert b"not a MirrorMQ link" in side.receive(b"GET / HTTP/1.1\r\n")


def test_names_that_cannot_be_sent_are_an_error_here() -> None:
    with pytest.raises(ValueError, match="too long"):
        dialler(PeerIdentity("a" * 300))
    with pytest.raises(ValueError, match="cookie"):
        dialler(cookie=b"")
