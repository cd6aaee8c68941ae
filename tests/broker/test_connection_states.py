"""States of a connection: each event in each state leads to a state that the table of transitions allows, and
each transition of the table happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.auth.client_peer import Peer
from mirrormq.connections.connection import Connection
from mirrormq.connections.states import TRANSITIONS, ConnectionState
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.fields import Field, Table, table_of
from mirrormq.wire.frames import BODY, HEARTBEAT, PROTOCOL_HEADER
from tests.hostile.in_process import make_broker

ARCHITECTURE = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"
CAPABLE = {"capabilities": Field("F", table_of({"authentication_failure_close": True}))}
WRONG, RIGHT = b"\0guest\0wrong", b"\0guest\0guest"

Event = Callable[[Connection], None]


def sent(data: bytes) -> Event:
    return lambda connection: connection.receive(data)


def method(payload: bytes, channel: int = 0) -> Event:
    return sent(method_frame(channel, payload))


def start_ok(properties: Table, response: bytes) -> Event:
    return method(methods.encode_connection_start_ok(properties, "PLAIN", response, "en_US"))


def let_time_pass(connection: Connection) -> None:
    """Let every timer of the connection run out."""
    clock = connection.broker.clock
    clock.now_ms += 3_600_000
    clock.run_due()


STEPS: dict[ConnectionState, Event] = {
    ConnectionState.STARTING: sent(PROTOCOL_HEADER),
    ConnectionState.TUNING: start_ok({}, RIGHT),
    ConnectionState.OPENING: method(methods.encode_connection_tune_ok(2047, 131072, 0)),
    ConnectionState.OPEN: method(methods.encode_connection_open("/")),
    ConnectionState.CLOSING: method(methods.encode_connection_close(200, "", 0, 0)),
    ConnectionState.CLOSED: lambda connection: connection.lost(),
}
"""The regular event that leads into each state from the one before."""

EVENTS: dict[str, Event] = {
    **{f"the step to {state.value}": step for state, step in STEPS.items()},
    "another protocol": sent(b"GET / HTTP/1.1\r\n"),
    "a wrong password": start_ok({}, WRONG),
    "a wrong password of a client that understands a refusal": start_ok(CAPABLE, WRONG),
    "an unknown mechanism": method(methods.encode_connection_start_ok({}, "NONE", b"", "en_US")),
    "limits that were not offered": method(methods.encode_connection_tune_ok(2047, 1 << 30, 0)),
    "an unknown vhost": method(methods.encode_connection_open("nowhere")),
    "a new secret": method(methods.encode_connection_update_secret(b"s", "r")),
    "secure-ok": method(methods.encode_connection_secure_ok(b"s")),
    "blocked": method(methods.encode_connection_blocked("r")),
    "close-ok": method(methods.encode_connection_close_ok()),
    "an unknown method": method(b"\x00\x0a\xff\xff"),
    "a channel": method(methods.encode_channel_open(), 1),
    "a method of a channel that is not open": method(methods.encode_basic_qos(0, 1), 7),
    "a body on channel 0": sent(bytes([BODY]) + b"\0\0\0\0\0\x01x\xce"),
    "a heartbeat": sent(bytes([HEARTBEAT]) + b"\0\0\0\0\0\0\xce"),
    "a heartbeat of a channel": sent(bytes([HEARTBEAT]) + b"\0\x01\0\0\0\0\xce"),
    "a frame without its end": sent(bytes([HEARTBEAT]) + b"\0\0\0\0\0\0\x00"),
    "a frame that is too large": sent(b"\x01\0\0\xff\xff\xff\xff"),
    "the operator closes it": lambda connection: connection.force_close("maintenance"),
    "time passes": let_time_pass,
}


def in_state(state: ConnectionState) -> Connection:
    """Return a connection that has come to this state by the regular events."""
    broker = make_broker()
    broker.verify_password = lambda check: check.decided(check.password == b"guest")
    connection = Connection(broker, Peer("127.0.0.1", 1))
    for following, step in STEPS.items():
        if connection.state is state:
            break
        step(connection)
        broker.turn()
        assert connection.state is following
    assert connection.state is state
    return connection


@pytest.mark.parametrize("state", ConnectionState)
def test_events_lead_to_the_states_of_the_table_and_to_all_of_them(state: ConnectionState) -> None:
    reached: dict[ConnectionState, str] = {}
    for name, event in EVENTS.items():
        connection = in_state(state)
        event(connection)
        connection.broker.turn()
        reached.setdefault(connection.state, name)
    reached.pop(state, None)
    assert reached.keys() == TRANSITIONS[state], reached


def test_the_diagram_shows_the_table() -> None:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> pre_init"]
    lines += [
        f"    {state.value} --> {following.value}"
        for state in ConnectionState
        for following in ConnectionState
        if following in TRANSITIONS[state]
    ]
    assert "\n".join([*lines, "    closed --> [*]", "```"]) in ARCHITECTURE.read_text()
