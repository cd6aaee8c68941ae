"""Counting by stride equals counting frame by frame, however the bytes are cut and mixed."""

from __future__ import annotations

import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.client.client_handshake import ClientOptions
from mirrormq.perf.load_connection import LoadConnection
from mirrormq.perf.perf_options import PerfError, PerfOptions
from mirrormq.perf.publish_frames import ACK, ACK_FRAME, NACK, build_run
from mirrormq.perf.roles import LoadConsumer, LoadProducer
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import BODY, HEADER, HEARTBEAT_FRAME, METHOD, frame
from tests.client import broker_bytes

NOW_NS = 5_000_000_000
STAMP_NS = 4_000_000_000


class Peer:
    """The broker's end of a real socket pair."""

    def __init__(self, heartbeat_s: int | None = None) -> None:
        self.socket, ours = socket.socketpair()
        connection = broker_bytes.opened(ClientOptions(heartbeat_s=heartbeat_s))
        self.link = LoadConnection(
            ours, connection, broker_bytes.opened_channel(connection), buffer_bytes=65536
        )

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.link.socket.close()

    def received(self) -> bytes:
        """Return the bytes that the role has sent so far."""
        self.socket.setblocking(False)
        parts = []
        try:
            while part := self.socket.recv(1 << 20):
                parts.append(part)
        except BlockingIOError:
            pass
        return b"".join(parts)


def delivery(tag: int, size: int, *, stamped: bool = False, frame_max: int = 131072) -> bytes:
    body = struct.pack(">BQ", 1, STAMP_NS) if stamped else bytes(9)
    body = (body + b"x" * size)[:size]
    step = frame_max - 8
    bodies = [frame(BODY, 1, body[at : at + step]) for at in range(0, size, step)]
    return b"".join(
        [
            frame(METHOD, 1, methods.encode_basic_deliver("perf", tag, False, "", "perf")),
            frame(HEADER, 1, b"\x00\x3c\x00\x00" + struct.pack(">Q", size) + b"\x00\x00"),
            *bodies,
        ]
    )


sizes = st.sampled_from([0, 1, 8, 9, 100, 100, 100, 100, 300])
items = st.one_of(sizes, st.just("heartbeat"))


@given(st.lists(items, max_size=40), st.booleans(), st.data())
def test_every_delivery_is_counted_once(mixture: list[int | str], vary: bool, data: st.DataObject) -> None:
    stream, tag, stamps = b"", 0, 0
    for item in mixture:
        if isinstance(item, int):
            tag += 1
            stamped = item >= 9 and tag % 3 == 0
            stamps += stamped
            stream += delivery(tag, item, stamped=stamped)
        else:
            stream += HEARTBEAT_FRAME
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    with Peer() as peer:
        consumer = LoadConsumer(peer.link, PerfOptions(ack_every=4, prefetch=500, vary=vary), b"")
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            if stop > start:
                peer.socket.sendall(stream[start:stop])
                consumer.readable(NOW_NS)
        assert consumer.consumed_count == tag
        assert consumer.latency.total == stamps
        assert peer.link.start == peer.link.end
        acked = [entry[4] for entry in ACK_FRAME.iter_unpack(peer.received())]
        assert acked == list(range(4, tag + 1, 4))


@pytest.mark.parametrize("vary", [False, True])
def test_a_body_in_several_frames_is_one_delivery(vary: bool) -> None:
    with Peer() as peer:
        consumer = LoadConsumer(peer.link, PerfOptions(vary=vary), b"")
        peer.socket.sendall(
            b"".join(delivery(tag, 10_000, stamped=True, frame_max=4096) for tag in range(1, 6))
        )
        deadline = time.monotonic() + 5
        while consumer.consumed_count < 5 and time.monotonic() < deadline:
            consumer.readable(NOW_NS)
        assert consumer.consumed_count == 5
        assert consumer.latency.total == 5
        assert consumer.latency.maximum == NOW_NS - STAMP_NS


def producer_on(peer: Peer, **options: int) -> LoadProducer:
    chosen = PerfOptions(mode="publish", confirm_window=options.get("window", 100))
    run = build_run("", "perf", 20, persistent=False, frame_max=131072, batch=0)
    return LoadProducer(peer.link, [run], chosen, options.get("limit", 0), b"")


def answer(method: bytes, tag: int, multiple: bool) -> bytes:
    return ACK_FRAME.pack(METHOD, 1, 13, method, tag, multiple, 0xCE)


@given(st.data())
def test_confirms_are_counted_in_any_order_with_and_without_multiple(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    waiting = set(range(1, count + 1))
    stream, confirmed, rejected = b"", 0, 0
    while waiting:
        tag = data.draw(st.sampled_from(sorted(waiting)))
        multiple, nack = data.draw(st.booleans()), data.draw(st.booleans())
        covered = {each for each in waiting if each <= tag} if multiple else {tag}
        waiting -= covered
        confirmed, rejected = confirmed + (not nack) * len(covered), rejected + nack * len(covered)
        stream += answer(NACK if nack else ACK, tag, multiple)
    with Peer() as peer:
        producer = producer_on(peer, window=100, limit=count)
        producer.pump(NOW_NS)
        assert producer.published_count == count
        assert not producer.settled
        peer.socket.sendall(stream)
        producer.readable(NOW_NS + 1)
        assert (producer.confirmed_count, producer.rejected_count) == (confirmed, rejected)
        assert producer.settled


def test_the_window_bounds_what_is_unconfirmed() -> None:
    with Peer() as peer:
        producer = producer_on(peer, window=100)
        for _ in range(5):
            producer.pump(NOW_NS)
        assert producer.published_count == 100
        peer.socket.sendall(answer(ACK, 40, True))
        producer.readable(NOW_NS)
        producer.pump(NOW_NS)
        assert producer.published_count == 140


def test_a_blocked_producer_waits_until_it_is_unblocked() -> None:
    with Peer() as peer:
        producer = producer_on(peer, window=100)
        peer.socket.sendall(method_frame(0, methods.encode_connection_blocked("low")))
        producer.readable(NOW_NS)
        producer.pump(NOW_NS)
        assert producer.published_count == 0
        peer.socket.sendall(method_frame(0, methods.encode_connection_unblocked()))
        producer.readable(NOW_NS)
        producer.pump(NOW_NS)
        assert producer.published_count == 100


def test_the_brokers_own_words_end_the_run() -> None:
    with Peer() as peer:
        close = methods.encode_channel_close(404, "NOT_FOUND - no exchange 'nope' in vhost '/'", 60, 40)
        producer = producer_on(peer)
        peer.socket.sendall(frame(METHOD, 1, close))
        with pytest.raises(PerfError, match="NOT_FOUND - no exchange 'nope'"):
            producer.readable(NOW_NS)


def test_a_heartbeat_leaves_in_time_and_a_silent_broker_is_given_up() -> None:
    with Peer(heartbeat_s=10) as peer:
        peer.link.beat(100.0)
        peer.link.beat(104.0)
        assert peer.received() == b""
        peer.link.beat(105.0)
        assert peer.received() == HEARTBEAT_FRAME
        with pytest.raises(PerfError, match="not even a heartbeat"):
            peer.link.beat(122.0)
