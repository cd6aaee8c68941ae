"""Crossing dials: in every order of the two handshakes the connection of the smaller name stays.

b dials a through a relay that holds back one of its messages; a dials b directly, or through another
relay.
"""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from mirrormq.peers.link_loss import CROSSING, LinkLoss
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_link import PeerLink
from tests.peers.ends import End, Ping, linked, started, until
from tests.peers.tcp_relay import Gate


async def stays(a: End, b: End) -> None:
    """Check that one link exists, dialled by a, and that it never went down."""
    await until(lambda: linked(a, b))
    await until(lambda: not a.links._pending and not b.links._pending)
    mine, theirs = a.links._links["b@x"], b.links._links["a@x"]
    assert mine.dialled and mine.session_id == theirs.session_id
    a.links.send("b@x", Ping(1))
    b.links.send("a@x", Ping(2))
    await until(lambda: a.of("message", "b@x") and b.of("message", "a@x"))
    for end, peer in ((a, "b@x"), (b, "a@x")):
        assert end.of("up", peer) == [1] and end.of("down", peer) == []


@pytest.mark.parametrize(("direction", "passes"), [("in", 0), ("out", 0), ("in", 1)])
async def test_a_s_dial_is_done_while_b_s_is_half_way(direction: str, passes: int) -> None:
    """Hold back b's hello, or a's reply to it, or b's proof."""
    a, b = End("a@x"), End("b@x")
    async with started(a, b), Gate(a.port) as gate:
        gate.hold(direction, passes)
        b.links.add_peer(PeerAddress("a@x", "127.0.0.1", gate.port))
        await until(lambda: gate.waiting)
        a.dial(b)
        await until(lambda: linked(a, b))
        gate.release(direction)
        await stays(a, b)


@pytest.mark.parametrize("passes", [0, 1])
async def test_b_s_proof_comes_while_a_is_shaking_hands_as_dialler(passes: int) -> None:
    """Let a's dial send its hello (and its proof) while the reply is in transit."""
    a, b = End("a@x"), End("b@x")
    async with started(a, b), Gate(a.port) as to_a, Gate(b.port) as to_b:
        to_a.hold("in", 1)
        to_b.hold("out", passes)
        b.links.add_peer(PeerAddress("a@x", "127.0.0.1", to_a.port))
        await until(lambda: to_a.waiting)
        a.links.add_peer(PeerAddress("b@x", "127.0.0.1", to_b.port))
        await until(lambda: to_b.waiting)
        to_a.release("in")
        await until(lambda: not a.links._pending)
        assert a.links.peers == []
        to_b.release("out")
        await stays(a, b)


async def test_a_link_that_b_dialled_stays_when_a_learns_of_the_address_later() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        b.dial(a)
        await until(lambda: linked(a, b))
        a.dial(b)
        a.links.send("b@x", Ping(1))
        await until(lambda: b.of("message", "a@x"))
        assert a.of("up", "b@x") == [1] and not a.links._links["b@x"].dialled


async def test_when_b_alone_has_lost_a_s_connection_it_gets_a_new_one_at_once() -> None:
    """Drop b's close, so that it never reaches a."""
    a, b = End("a@x"), End("b@x")
    async with started(a, b), Gate(b.port) as gate:
        a.links.add_peer(PeerAddress("b@x", "127.0.0.1", gate.port))
        await until(lambda: linked(a, b))
        gate.hold("out")
        b.links._links["a@x"].heartbeat()
        await until(lambda: gate.waiting)
        b.links._links["a@x"].end(LinkLoss("lost"))
        b.dial(a)
        await until(lambda: len(a.of("up", "b@x")) == 2)
        assert a.of("down", "b@x") == ["replaced by a newer connection"]


async def test_a_dial_that_connects_when_there_is_a_link_already_says_nothing() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        b.dial(a)
        a.dial(b)
        await until(lambda: linked(a, b))
        late = PeerLink(b.links, "a@x")
        await asyncio.get_running_loop().create_connection(lambda: late, "127.0.0.1", a.port)
        assert await late.settled == CROSSING
        assert b.of("up", "a@x") == [1] and b.of("down", "a@x") == []


@pytest.mark.parametrize("seed", range(4))
async def test_each_pair_ends_with_one_link_and_true_reports_for_any_broken_connections(seed: int) -> None:
    chance = random.Random(seed)
    ends = [End(f"{name}@x") for name in "abc"]
    async with started(*ends):
        for one, other in itertools.permutations(ends, 2):
            one.dial(other)
        for _ in range(60):
            end = chance.choice(ends)
            if end.links.peers:
                end.links._links[chance.choice(end.links.peers)].end(LinkLoss("broken"))
            await asyncio.sleep(chance.choice([0, 0.001, 0.01, 0.1]))
        pairs = list(itertools.combinations(ends, 2))

        def agreed() -> bool:
            return linked(*ends) and all(
                one.links._links[other.name].session_id == other.links._links[one.name].session_id
                for one, other in pairs
            )

        await until(agreed)
        for one, other in itertools.permutations(ends, 2):
            story = [kind for kind, peer, _ in one.events if peer == other.name and kind in ("up", "down")]
            assert story == ["up", "down"] * (len(story) // 2) + ["up"]
            assert one.of("up", other.name) == sorted(set(one.of("up", other.name)))
