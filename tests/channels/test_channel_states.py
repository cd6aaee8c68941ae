"""States of a channel: each event in each state leads to a state that the table of transitions allows, and
each transition of the table happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.auth.client_peer import Peer
from mirrormq.broker.channel_states import TRANSITIONS, ChannelState
from mirrormq.channels.channel import Channel
from mirrormq.connections.connection import Connection
from mirrormq.connections.states import ConnectionState
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.frames import BODY, PROTOCOL_HEADER
from tests.hostile.in_process import make_broker

ARCHITECTURE = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"
NUMBER = 1
Event = Callable[[Channel], None]


def sent(data: bytes) -> Event:
    def send(channel: Channel) -> None:
        assert isinstance(channel.connection, Connection)
        channel.connection.receive(data)

    return send


def method(payload: bytes) -> Event:
    return sent(method_frame(NUMBER, payload))


def let_delivery_time_out(channel: Channel) -> None:
    """Close the channel as the check of `consumer_timeout` does."""
    broker = channel.broker
    broker.clock.now_ms += 24 * 3_600_000
    broker.clock.run_due()


SOFT_ERROR = method(methods.encode_queue_declare("nowhere", passive=True))

STEPS: dict[ChannelState, list[Event]] = {
    ChannelState.RUNNING: [],
    ChannelState.CONFIRMING: [method(methods.encode_confirm_select())],
    ChannelState.TRANSACTIONAL: [method(methods.encode_tx_select())],
    ChannelState.CLOSING: [SOFT_ERROR],
    ChannelState.CLOSED: [method(methods.encode_channel_close(200, "", 0, 0))],
}
"""Events that lead from an open channel into each state."""

EVENTS: dict[str, Event] = {
    "confirm.select": method(methods.encode_confirm_select()),
    "tx.select": method(methods.encode_tx_select()),
    "tx.commit": method(methods.encode_tx_commit()),
    "tx.rollback": method(methods.encode_tx_rollback()),
    "a soft error": SOFT_ERROR,
    "a hard error": method(methods.encode_queue_delete_ok(0)),
    "an unknown method": method(b"\x00\x3c\xff\xff"),
    "close": method(methods.encode_channel_close(200, "", 0, 0)),
    "close-ok": method(methods.encode_channel_close_ok()),
    "open": method(methods.encode_channel_open()),
    "flow": method(methods.encode_channel_flow(False)),
    "a publish": method(methods.encode_basic_publish("", "q")),
    "a whole publish": sent(
        method_frame(NUMBER, methods.encode_basic_publish("", "q"))
        + build_frames(NUMBER, b"\0\0", b"body", 0)
    ),
    "a publish to an unknown exchange": sent(
        method_frame(NUMBER, methods.encode_basic_publish("nowhere", "q"))
        + build_frames(NUMBER, b"\0\0", b"body", 0)
    ),
    "a body without a publish": sent(bytes([BODY]) + b"\0\x01\0\0\0\x01x\xce"),
    "an acknowledgement of nothing": method(methods.encode_basic_ack(7, False)),
    "a delivery that is held for too long": let_delivery_time_out,
    "the client closes the connection": sent(method_frame(0, methods.encode_connection_close(200, "", 0, 0))),
    "the operator closes the connection": lambda channel: channel.connection.force_close("maintenance"),
    "the socket is lost": lambda channel: channel.connection.lost(),  # type: ignore[attr-defined]
}


def in_state(state: ChannelState) -> Channel:
    """Return a channel that has come to this state, with a queue and a delivery that it holds."""
    broker = make_broker()
    broker.verify_password = lambda check: check.decided(True)
    connection = Connection(broker, Peer("127.0.0.1", 1))
    for payload in (
        methods.encode_connection_start_ok({}, "PLAIN", b"\0guest\0guest", "en_US"),
        methods.encode_connection_tune_ok(2047, 131072, 0),
        methods.encode_connection_open("/"),
    ):
        if connection.state is ConnectionState.HEADER:
            connection.receive(PROTOCOL_HEADER)
        connection.receive(method_frame(0, payload))
        broker.turn()
    assert connection.state is ConnectionState.OPEN
    for payload in (methods.encode_channel_open(), methods.encode_queue_declare("q")):
        connection.receive(method_frame(NUMBER, payload))
        broker.turn()
    channel = connection.channels[NUMBER]
    EVENTS["a whole publish"](channel)
    broker.turn()
    connection.receive(method_frame(NUMBER, methods.encode_basic_get("q")))
    broker.turn()
    assert channel.unacked.by_tag
    for step in STEPS[state]:
        step(channel)
        broker.turn()
    assert channel.state is state
    return channel


@pytest.mark.parametrize("state", ChannelState)
def test_events_lead_to_the_states_of_the_table_and_to_all_of_them(state: ChannelState) -> None:
    reached: dict[ChannelState, str] = {}
    for name, event in EVENTS.items():
        channel = in_state(state)
        event(channel)
        channel.broker.turn()
        reached.setdefault(channel.state, name)
        assert isinstance(channel.connection, Connection)
        registered = channel in channel.connection.channels.values()
        assert registered is (channel.state is not ChannelState.CLOSED), name
    reached.pop(state, None)
    assert reached.keys() == TRANSITIONS[state], reached


def test_the_diagram_shows_the_table() -> None:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> running"]
    lines += [
        f"    {state.value} --> {following.value}"
        for state in ChannelState
        for following in ChannelState
        if following in TRANSITIONS[state]
    ]
    assert "\n".join([*lines, "    closed --> [*]", "```"]) in ARCHITECTURE.read_text()
