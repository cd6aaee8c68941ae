"""Links on loopback: one per pair, in order, at most once, with events that always tell the user the
state."""

from __future__ import annotations

import asyncio
import itertools
import time
from unittest.mock import patch

import pytest

from mirrormq.peers import peer_limits
from mirrormq.peers.failure_detector import Liveness
from mirrormq.peers.link_loss import LinkLoss
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.runtime.peer_dialler import PeerAddress
from tests.brokers.ports import free_port
from tests.peers.ends import End, Ping, Text, linked, started, until


async def test_messages_arrive_in_order_whatever_they_are() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        sent = [Ping(1), b"raw", Text("word"), b"", b"long" * 500_000, Ping(2), b"last"]
        for message in sent:
            a.links.send("b@x", message)
        await until(lambda: len(b.of("message", "a@x")) == len(sent))
        assert b.of("message", "a@x") == sent
        b.links.send("a@x", Text("back"))
        await until(lambda: a.of("message", "b@x") == [Text("back")])
        assert a.links.detector.liveness("b@x") is Liveness.UP


async def test_output_of_one_turn_leaves_in_one_write() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        link = a.links._links["b@x"]
        assert link._transport is not None
        transport = link._transport
        writes: list[bytes] = []

        class Counting:
            def write(self, data: bytes) -> None:
                writes.append(data)
                transport.write(data)

            def __getattr__(self, name: str) -> object:
                return getattr(transport, name)

        link._transport = Counting()  # type: ignore[assignment]
        for number in range(1000):
            a.links.send("b@x", Ping(number))
        await until(lambda: len(b.of("message", "a@x")) == 1000)
        assert len([data for data in writes if len(data) > 5]) == 1


@pytest.mark.parametrize("round_", range(5))
async def test_of_crossing_dials_exactly_one_connection_stays(round_: int) -> None:
    ends = [End(f"{name}@x") for name in "abcd"]
    async with started(*ends):
        for one, other in itertools.permutations(ends, 2):
            one.dial(other)
        await until(lambda: linked(*ends))
        for one, other in itertools.combinations(ends, 2):
            mine, theirs = one.links._links[other.name], other.links._links[one.name]
            assert mine.session_id == theirs.session_id
            one.links.send(other.name, Text(f"{round_} from {one.name}"))
            await until(lambda one=one, other=other: other.of("message", one.name))  # type: ignore[misc]
        for one, other in itertools.permutations(ends, 2):
            assert len(one.of("up", other.name)) == 1 and not one.of("down", other.name)


async def test_a_peer_that_comes_back_before_its_loss_was_noticed_is_let_in_at_once() -> None:
    a, b = End("a@x"), End("b@x")
    again = End("b@x")
    async with started(a, b, again):
        a.dial(b)
        await until(lambda: linked(a, b))
        a.links.remove_dialler("b@x")
        again.dial(a)
        await until(lambda: len(a.of("up", "b@x")) == 2)
        assert a.of("down", "b@x") == ["replaced by a newer connection"]
        first, second = a.of("up", "b@x")
        assert second > first


async def test_a_new_session_has_a_higher_number_and_nothing_of_the_old_one() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        for session in range(1, 4):
            a.links.send("b@x", Ping(session))
            await until(lambda session=session: Ping(session) in b.of("message", "a@x"))  # type: ignore[misc]
            b.links._links["a@x"].end(LinkLoss("test"))
            a.links.send("b@x", b"into the void or not")
            await until(lambda session=session: len(b.of("up", "a@x")) == session + 1)  # type: ignore[misc]
            await until(lambda session=session: len(a.of("up", "b@x")) == session + 1)  # type: ignore[misc]
        kinds = [kind for kind, _, _ in b.events if kind in ("up", "down")]
        assert kinds == ["up", "down"] * 3 + ["up"]
        assert a.of("up", "b@x") == sorted(set(a.of("up", "b@x")))
        assert len(b.of("message", "a@x")) == len(set(map(repr, b.of("message", "a@x"))))


async def test_a_message_to_a_peer_without_a_link_goes_nowhere() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.links.send("b@x", b"too early")
        a.dial(b)
        await until(lambda: linked(a, b))
        a.links.send("b@x", b"in time")
        await until(lambda: b.of("message", "a@x"))
        assert b.of("message", "a@x") == [b"in time"]
        assert a.links.session("b@x") == 1 and a.links.session("c@x") is None


async def test_a_node_that_starts_late_is_found() -> None:
    a, b = End("a@x"), End("b@x")
    port = free_port()
    async with started(a):
        a.links.add_peer(PeerAddress("b@x", "127.0.0.1", port))
        await until(lambda: a.log.having("cannot connect"))
        await b.start(port)
        await until(lambda: linked(a, b))
        assert len(a.log.having("no link")) == 1, "one line, not one per attempt"
        await b.links.stop()
        await until(lambda: a.of("down", "b@x"))


async def test_a_slow_receiver_congests_the_link_and_nothing_is_lost() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        link = b.links._links["a@x"]
        assert link._transport is not None
        link._transport.pause_reading()
        payload, sent = b"p" * 100_000, 0
        while not a.links.congested("b@x"):
            a.links.send("b@x", payload)
            sent += 1
            await asyncio.sleep(0)
        assert (
            peer_limits.CONGESTED_BYTES
            < a.links.queued_bytes("b@x")
            < peer_limits.CONGESTED_BYTES + 2 * len(payload)
        )
        link._transport.resume_reading()
        await until(lambda: len(b.of("message", "a@x")) == sent)
        assert a.of("relief", "b@x") == [None] and not a.links.congested("b@x")


async def test_callers_beyond_the_buffer_limit_lose_the_link_with_a_log_line() -> None:
    a, b = End("a@x", queued_bytes_max=peer_limits.CONGESTED_BYTES + 1_000_000), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        for _ in range(200):
            a.links.send("b@x", b"x" * 100_000)
        await until(lambda: a.of("down", "b@x"))
        assert "overloaded" in a.of("down", "b@x")[0]
        await until(lambda: len(a.of("up", "b@x")) == 2)


async def test_urgent_messages_and_heartbeats_pass_a_long_transfer() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        a.links.send("b@x", b"y" * 100_000_000)
        await asyncio.sleep(0)
        a.links.send("b@x", Ping(7), urgent=True)
        a.links.send("b@x", Ping(8))
        await until(lambda: len(b.of("message", "a@x")) == 3)
        first, second, third = b.of("message", "a@x")
        assert (first, len(second), third) == (Ping(7), 100_000_000, Ping(8))


async def test_stopping_sends_what_was_sent_and_says_so() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        for number in range(50):
            a.links.send("b@x", b"z" * 20_000 + bytes([number]))
        await a.links.stop()
        await until(lambda: b.of("down", "a@x"))
        assert len(b.of("message", "a@x")) == 50
        assert a.of("down", "b@x") == ["this node stops"]


async def test_a_link_that_breaks_while_its_node_stops_is_no_matter() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        transport = a.links._links["b@x"]._transport
        assert transport is not None
        loop = asyncio.get_running_loop()
        loop.call_soon(transport.abort)
        await loop.create_task(a.links.stop())
        assert len(a.of("down", "b@x")) == 1


async def test_a_handler_that_fails_costs_the_session_and_is_logged() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        with patch.object(b, "on_message", side_effect=RuntimeError("cannot")):
            a.links.send("b@x", Ping(1))
            a.links.send("b@x", Ping(2))
            await until(lambda: b.of("down", "a@x"))
        assert "cannot" in b.of("down", "a@x")[0] and b.of("message", "a@x") == []
        await until(lambda: len(a.of("up", "b@x")) == 2)


async def test_a_message_of_another_type_ends_the_session() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        a.links.send("b@x", {"not": "in the union"})
        await until(lambda: b.of("down", "a@x"))
        assert "unreadable message" in b.of("down", "a@x")[0]


async def test_a_peer_may_be_removed_and_a_known_one_refused() -> None:
    a = End("a@x", admit=lambda peer: "was forgotten" if peer.name == "c@x" else None)
    b, c = End("b@x"), End("c@x")
    async with started(a, b, c):
        b.dial(a)
        c.dial(a)
        await until(lambda: linked(a, b) and c.log.having("was forgotten"))
        assert a.of("up", "c@x") == []
        b.links.remove_peer("a@x")
        await until(lambda: a.of("down", "b@x"))
        assert b.of("down", "a@x") == ["removed"] and b.links.peers == []


async def test_an_identity_may_change_for_the_handshakes_to_come() -> None:
    a, b = End("a@x"), End("b@x")
    a.links.options.identity = PeerIdentity("a@x", "one cluster")
    b.links.options.identity = PeerIdentity("b@x", "another")
    async with started(a, b):
        a.dial(b)
        await until(lambda: a.log.having("a node of another cluster"))
        a.links.options.identity = PeerIdentity("a@x", "")
        await until(lambda: linked(a, b))


async def test_a_loop_that_is_blocked_for_long_declares_no_node_down() -> None:
    """Block the loop that both ends share: neither hears anything for four seconds."""
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        a.dial(b)
        await until(lambda: linked(a, b))
        time.sleep(4.0)  # noqa: ASYNC251 (the blocked loop is the point)
        await until(lambda: a.of("slept", ""))
        a.links.send("b@x", Ping(1))
        await until(lambda: b.of("message", "a@x"))
        assert a.of("down", "b@x") == b.of("down", "a@x") == []
        assert max(a.of("slept", "")) >= 3900
