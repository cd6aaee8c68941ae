"""Steps of a handshake that several scripts take by hand."""

from __future__ import annotations

from typing import Any

from tests.differential.client import FRAME_MAX, Connection
from tests.differential.codec import PROTOCOL_HEADER, Method
from tests.differential.context import Context, expect
from tests.differential.transcript import CAPABILITIES


def greet(c: Context) -> Connection:
    """A connection whose connection.start has been read, in silence."""
    connection = c.raw()
    connection.send_silently(PROTOCOL_HEADER)
    expect(connection.zero, "connection.start")
    return connection


def start_ok(
    connection: Connection,
    mechanism: str = "PLAIN",
    response: str | bytes = "\0guest\0guest",
    capabilities: dict[str, Any] | None = None,
    locale: str = "en_US",
) -> Method:
    connection.zero.send(
        "connection.start-ok",
        client_properties={"capabilities": CAPABILITIES if capabilities is None else capabilities},
        mechanism=mechanism,
        response=response,
        locale=locale,
    )
    return connection.zero.read()


def authenticated(c: Context) -> Connection:
    """A connection that has just been sent connection.tune."""
    connection = greet(c)
    start_ok(connection)
    return connection


def tune_ok(
    connection: Connection, channel_max: int = 2047, frame_max: int = FRAME_MAX, heartbeat: int = 0
) -> None:
    connection.zero.send(
        "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat
    )
