"""Client core: any split of the byte stream gives the same events; a hostile broker meets named limits."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.client import frame_decoder
from mirrormq.client.client_connection import ClientConnection, ClientState
from mirrormq.client.client_events import (
    Blocked,
    ChannelClosed,
    ChannelOpened,
    Closed,
    CloseReason,
    Confirm,
    ConsumerCancelled,
    Delivery,
    FlowChanged,
    GetReply,
    MethodReply,
    Opened,
    Returned,
    Unblocked,
)
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import BODY, HEADER, HEARTBEAT_FRAME, METHOD, PROTOCOL_HEADER, frame
from tests.client import broker_bytes
from tests.client.broker_bytes import confirm, delivery, feed, opened, opened_channel

bodies = st.one_of(
    st.binary(max_size=40), st.integers(0, 3 * broker_bytes.FRAME_MAX).map(lambda size: b"x" * size)
)
channels = st.sampled_from([1, 2])
pieces = st.one_of(
    st.builds(
        delivery,
        st.integers(1, 5),
        bodies,
        consumer=st.sampled_from(["c", "other"]),
        key=st.sampled_from(["k", "longer", "\udcff"]),
        channel=channels,
        properties=st.sampled_from([b"\0\0", b"\x10\0\2"]),
    ),
    st.builds(confirm, st.integers(1, 9), multiple=st.booleans(), accepted=st.booleans(), channel=channels),
    st.just(HEARTBEAT_FRAME),
    st.just(method_frame(0, methods.encode_connection_blocked("low on memory"))),
    st.just(method_frame(0, methods.encode_connection_unblocked())),
    st.just(method_frame(1, methods.encode_channel_flow(False))),
    st.just(method_frame(1, methods.encode_basic_cancel("c", True))),
    bodies.map(
        lambda body: broker_bytes.content(
            methods.encode_basic_return(312, "NO_ROUTE", "x", "k"), body, channel=1
        )
    ),
)
cuts = st.lists(st.integers(0, 1 << 16), max_size=30)


def two_channels() -> ClientConnection:
    connection = opened()
    opened_channel(connection)
    opened_channel(connection)
    return connection


@given(st.lists(pieces, max_size=25), cuts)
def test_any_split_gives_the_same_events(stream: list[bytes], where: list[int]) -> None:
    data = b"".join(stream)
    whole, split, single = two_channels(), two_channels(), two_channels()
    events = feed(whole, data, [])
    assert feed(split, data, where) == events
    assert feed(single, data, list(range(len(data)))) == events
    assert split.take_output() == whole.take_output() == single.take_output()


@given(st.lists(pieces, max_size=6), st.integers(0, 1 << 16), st.integers(0, 255), cuts)
def test_any_split_of_damaged_bytes_gives_the_same_events(
    stream: list[bytes], place: int, octet: int, where: list[int]
) -> None:
    data = bytearray(b"".join(stream) + HEARTBEAT_FRAME)
    data[place % len(data)] = octet
    whole, split = two_channels(), two_channels()
    assert feed(split, bytes(data), where) == feed(whole, bytes(data), [])
    assert split.state is whole.state


@pytest.mark.parametrize("octet", [0, 1, 60, 255])
def test_every_damaged_octet_is_noticed_alike_in_runs_and_in_frames(octet: int) -> None:
    data = delivery(1, b"first") + delivery(2, b"") + delivery(3, b"third") + confirm(1) + confirm(2)
    for place in range(len(data)):
        damaged = data[:place] + bytes((octet,)) + data[place + 1 :] + HEARTBEAT_FRAME
        whole, single = two_channels(), two_channels()
        assert feed(single, damaged, list(range(len(damaged)))) == feed(whole, damaged, []), place


@given(st.binary(max_size=200), cuts)
def test_any_bytes_instead_of_a_handshake(data: bytes, where: list[int]) -> None:
    whole, split = ClientConnection(ClientOptions()), ClientConnection(ClientOptions())
    assert feed(split, data, where) == feed(whole, data, [])


def test_runs_and_single_frames_mean_the_same() -> None:
    connection = two_channels()
    data = b"".join(delivery(tag, b"b" * 100) for tag in range(1, 101))
    events = connection.receive(data)
    assert [event.delivery_tag for event in events if isinstance(event, Delivery)] == list(range(1, 101))
    assert events[1] == Delivery(1, "c", 2, True, "x", "k", b"\0\0", b"b" * 100)


def test_the_handshake_step_by_step() -> None:
    connection = ClientConnection(ClientOptions(user="me", password="secret", vhost="v", heartbeat_s=30))
    assert connection.take_output() == PROTOCOL_HEADER
    assert connection.receive(broker_bytes.start(b"AMQPLAIN PLAIN")) == []
    start_ok = methods.decode_connection_start_ok(connection.take_output()[7:-1])
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", b"\0me\0secret")
    connection.receive(broker_bytes.tune(100, 200_000, 60))
    tune_ok = methods.decode_connection_tune_ok(connection.take_output()[7:19])
    assert tune_ok == (100, 131_072, 30)
    assert connection.receive(broker_bytes.open_ok()) == [Opened({}, 100, 131_072, 30)]
    assert connection.state is ClientState.OPEN


@pytest.mark.parametrize(
    ("mechanisms", "offered", "mechanism", "response"),
    [
        (("AMQPLAIN",), b"PLAIN AMQPLAIN", "AMQPLAIN", b"\x05LOGINS\0\0\0\x01u\x08PASSWORDS\0\0\0\x01p"),
        (("EXTERNAL", "PLAIN"), b"PLAIN EXTERNAL", "EXTERNAL", b""),
        (("EXTERNAL", "PLAIN"), b"PLAIN", "PLAIN", b"\0u\0p"),
    ],
)
def test_mechanisms(mechanisms: tuple[str, ...], offered: bytes, mechanism: str, response: bytes) -> None:
    connection = ClientConnection(ClientOptions(user="u", password="p", mechanisms=mechanisms))
    connection.take_output()
    connection.receive(broker_bytes.start(offered))
    start_ok = methods.decode_connection_start_ok(connection.take_output()[7:-1])
    assert (start_ok.mechanism, start_ok.response) == (mechanism, response)


def closed_by(connection: ClientConnection, code: int, text: str) -> Closed:
    (event,) = connection.receive(method_frame(0, methods.encode_connection_close(code, text, 0, 0)))
    assert isinstance(event, Closed)
    assert connection.take_output().endswith(method_frame(0, methods.encode_connection_close_ok()))
    assert connection.receive(HEARTBEAT_FRAME) == []
    return event


def test_refusals_have_their_reason_as_a_code() -> None:
    connection = ClientConnection(ClientOptions())
    connection.receive(broker_bytes.start())
    assert closed_by(connection, 403, "ACCESS_REFUSED").reason is CloseReason.LOGIN_REFUSED
    connection = ClientConnection(ClientOptions())
    connection.receive(broker_bytes.start() + broker_bytes.tune())
    assert closed_by(connection, 530, "NOT_ALLOWED").reason is CloseReason.VHOST_REFUSED
    assert closed_by(opened(), 320, "CONNECTION_FORCED") == Closed(
        CloseReason.SERVER, "CONNECTION_FORCED", 320
    )
    connection = ClientConnection(ClientOptions())
    connection.receive(broker_bytes.start())
    (event,) = connection.lost("the broker closed the connection")
    assert isinstance(event, Closed) and event.reason is CloseReason.LOST
    assert "wrong user or password?" in event.text
    (event,) = ClientConnection(ClientOptions()).receive(PROTOCOL_HEADER)
    assert isinstance(event, Closed) and event.reason is CloseReason.WRONG_PROTOCOL
    (event,) = ClientConnection(ClientOptions()).receive(broker_bytes.start(b"OTHER"))
    assert isinstance(event, Closed) and event.reason is CloseReason.NO_MECHANISM


def test_requests_are_answered_in_their_order() -> None:
    connection = opened()
    channel = connection.open_channel()
    channel.request(methods.encode_queue_declare("q"))
    channel.request(methods.encode_basic_get("q"))
    channel.request(methods.encode_basic_get("q"))
    declare_ok, get_empty = methods.encode_queue_declare_ok("q", 1, 0), methods.encode_basic_get_empty()
    got = broker_bytes.content(methods.encode_basic_get_ok(1, False, "", "q", 0), b"body")
    answers = method_frame(1, declare_ok) + got + method_frame(1, get_empty)
    assert connection.receive(broker_bytes.channel_open_ok() + answers) == [
        ChannelOpened(1),
        MethodReply(1, methods.QueueDeclareOk("q", 1, 0)),
        GetReply(1, 1, False, "", "q", 0, b"\0\0", b"body"),
        MethodReply(1, methods.BasicGetEmpty()),
    ]
    assert channel.awaited_count == 0


def test_requests_without_an_answer_wait_for_none() -> None:
    connection = opened()
    channel = opened_channel(connection)
    channel.request(methods.encode_queue_declare("q", nowait=True))
    channel.request(methods.encode_basic_ack(1, False))
    assert channel.awaited_count == 0
    channel.request(methods.encode_basic_qos(0, 1))
    assert connection.receive(method_frame(1, methods.encode_basic_qos_ok())) == [
        MethodReply(1, methods.BasicQosOk())
    ]


def test_events_that_no_request_asked_for() -> None:
    connection = opened()
    channel = opened_channel(connection)
    stream = (
        method_frame(0, methods.encode_connection_blocked("disk"))
        + method_frame(1, methods.encode_channel_flow(False))
        + method_frame(1, methods.encode_basic_cancel("c", True))
        + broker_bytes.content(methods.encode_basic_return(312, "NO_ROUTE", "x", "k"), b"back")
        + confirm(3, multiple=True)
        + method_frame(0, methods.encode_connection_unblocked())
    )
    assert connection.receive(stream) == [
        Blocked("disk"),
        FlowChanged(1, False),
        ConsumerCancelled(1, "c"),
        Returned(1, 312, "NO_ROUTE", "x", "k", b"\0\0", b"back"),
        Confirm(1, 3, True, True),
        Unblocked(),
    ]
    assert not channel.flow_active and connection.blocked is None
    assert connection.take_output() == method_frame(1, methods.encode_channel_flow_ok(False))


def test_a_closed_channel_leaves_the_connection_and_its_number() -> None:
    connection = opened()
    opened_channel(connection)
    close = methods.encode_channel_close(404, "NOT_FOUND - no queue 'q'", 50, 10)
    assert connection.receive(method_frame(1, close)) == [
        ChannelClosed(1, 404, "NOT_FOUND - no queue 'q'", 50, 10)
    ]
    assert connection.take_output() == method_frame(1, methods.encode_channel_close_ok())
    assert opened_channel(connection).number == 1


def test_frames_that_cross_a_close_are_ignored() -> None:
    connection = opened()
    channel = opened_channel(connection)
    connection.receive(delivery(1, b"x" * 100)[:60])
    channel.close()
    rest = delivery(1, b"x" * 100)[60:] + delivery(2, b"y" * 10_000) + confirm(1)
    assert connection.receive(rest) == []
    close_ok = method_frame(1, methods.encode_channel_close_ok())
    assert connection.receive(close_ok) == [ChannelClosed(1, 0, "closed by the client")]
    channel = opened_channel(connection)
    connection.close()
    assert connection.receive(delivery(1, b"x")) == []
    close_ok = method_frame(0, methods.encode_connection_close_ok())
    assert connection.receive(close_ok) == [Closed(CloseReason.CLIENT, "closed by the client")]


def test_publishes_have_delivery_tags_once_they_are_confirmed() -> None:
    connection = opened()
    channel = opened_channel(connection)
    assert channel.publish("x", "k", b"\0\0", b"body") == 0
    channel.request(methods.encode_confirm_select())
    assert [channel.publish("x", "k", b"\0\0", b"body", mandatory=True) for _ in range(3)] == [1, 2, 3]
    assert channel.publish_frames(b"", 7) == 10


def test_large_bodies_are_cut_to_the_agreed_frames() -> None:
    connection = opened()
    channel = opened_channel(connection)
    channel.publish("", "q", b"\0\0", b"x" * 10_000)
    output, sizes = connection.take_output(), []
    while output:
        sizes.append(8 + int.from_bytes(output[3:7], "big"))
        output = output[sizes[-1] :]
    assert max(sizes) == broker_bytes.FRAME_MAX and len(sizes) == 5


def test_heartbeats_are_sent_and_missed() -> None:
    connection = ClientConnection(ClientOptions(heartbeat_s=10))
    connection.receive(broker_bytes.start() + broker_bytes.tune(heartbeat_s=10) + broker_bytes.open_ok())
    connection.take_output()
    assert connection.tick(100.0) == [] and connection.take_output() == b""
    assert connection.tick(106.0) == [] and connection.take_output() == HEARTBEAT_FRAME
    assert connection.tick(107.0) == [] and connection.take_output() == b""
    connection.receive(HEARTBEAT_FRAME)
    assert connection.tick(120.0) == []
    assert connection.tick(140.0) == []
    (event,) = connection.tick(142.0)
    assert isinstance(event, Closed) and event.reason is CloseReason.HEARTBEAT_TIMEOUT


def test_no_channel_beyond_what_the_broker_allows() -> None:
    connection = opened()
    for _ in range(10):
        connection.open_channel()
    with pytest.raises(ValueError, match="all 10 channels"):
        connection.open_channel()


def ended(connection: ClientConnection, data: bytes) -> CloseReason:
    event = connection.receive(data)[-1]
    assert isinstance(event, Closed)
    assert connection.state is ClientState.CLOSED
    return event.reason


DELIVER = method_frame(1, methods.encode_basic_deliver("c", 1, False, "", ""))
HOSTILE = {
    "frame without end": (HEARTBEAT_FRAME[:-1] + b"\0", CloseReason.PROTOCOL_ERROR),
    "unknown kind": (b"\x09" + HEARTBEAT_FRAME[1:], CloseReason.PROTOCOL_ERROR),
    "frame beyond frame_max": (b"\x03\0\1\0\0\x10\0", CloseReason.FRAME_TOO_LARGE),
    "frame of four gigabytes": (b"\x01\0\1\xff\xff\xff\xff", CloseReason.FRAME_TOO_LARGE),
    "channel never opened": (delivery(1, b"", channel=7), CloseReason.PROTOCOL_ERROR),
    "content on channel 0": (frame(BODY, 0, b"x"), CloseReason.PROTOCOL_ERROR),
    "heartbeat on channel 1": (frame(8, 1, b""), CloseReason.PROTOCOL_ERROR),
    "body without a method": (frame(BODY, 1, b"x"), CloseReason.PROTOCOL_ERROR),
    "method inside a content": (DELIVER + confirm(1), CloseReason.PROTOCOL_ERROR),
    "answer to nothing": (
        method_frame(1, methods.encode_queue_declare_ok("q", 0, 0)),
        CloseReason.PROTOCOL_ERROR,
    ),
    "unknown method": (frame(METHOD, 1, b"\0\x63\0\x63"), CloseReason.PROTOCOL_ERROR),
    "method cut short": (frame(METHOD, 1, b"\0\x3c\0\x3c\x10"), CloseReason.PROTOCOL_ERROR),
    "second start": (broker_bytes.start(), CloseReason.PROTOCOL_ERROR),
    "client's method": (method_frame(0, methods.encode_connection_open("/")), CloseReason.PROTOCOL_ERROR),
    "body of eight exabytes": (
        DELIVER + frame(HEADER, 1, b"\0\x3c\0\0" + b"\x7f" + b"\xff" * 7 + b"\0\0"),
        CloseReason.BODY_TOO_LARGE,
    ),
    "more body than announced": (
        DELIVER
        + frame(HEADER, 1, b"\0\x3c\0\0" + (5).to_bytes(8, "big") + b"\0\0")
        + frame(BODY, 1, b"123456"),
        CloseReason.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broker_that_breaks_the_protocol_is_left(name: str) -> None:
    data, reason = HOSTILE[name]
    connection = opened()
    opened_channel(connection)
    assert ended(connection, data) is reason
    assert connection.take_output() == method_frame(
        0, methods.encode_connection_close(501, "FRAME_ERROR", 0, 0)
    )


def test_the_limits_hold_before_the_frame_has_come() -> None:
    most = frame_decoder.HANDSHAKE_FRAME_BYTES_MAX
    connection = ClientConnection(ClientOptions())
    assert connection.receive(broker_bytes.start() + b"\1\0\0" + (most - 8).to_bytes(4, "big")) == []
    connection = ClientConnection(ClientOptions())
    too_large = broker_bytes.start() + b"\1\0\0" + (most - 7).to_bytes(4, "big")
    assert ended(connection, too_large) is CloseReason.FRAME_TOO_LARGE


def test_a_frame_limit_that_no_broker_may_set_is_refused() -> None:
    connection = ClientConnection(ClientOptions())
    connection.receive(broker_bytes.start())
    assert ended(connection, broker_bytes.tune(frame_max=9)) is CloseReason.PROTOCOL_ERROR


@pytest.mark.parametrize("piece", [b"", b"x"])
def test_a_body_in_single_octets_costs_little_more_than_itself(piece: bytes) -> None:
    count = 100 * 1024
    connection = opened()
    opened_channel(connection)
    header = frame(HEADER, 1, b"\0\x3c\0\0" + (count + 1).to_bytes(8, "big") + b"\0\0")
    connection.receive(DELIVER + header)
    data = frame(BODY, 1, piece) * 64
    tracemalloc.start()
    try:
        for _ in range(count // 64):
            connection.receive(data)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 2_000_000


def test_a_frame_in_single_octets_costs_little_more_than_itself() -> None:
    connection = opened()
    opened_channel(connection)
    data = delivery(1, b"x" * 4000)
    tracemalloc.start()
    try:
        for octet in data[:-1]:
            connection.receive(bytes((octet,)))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 40_000
    assert len(connection.receive(data[-1:])) == 1
