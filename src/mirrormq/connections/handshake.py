"""AMQP connection handshake, and the methods of channel 0.

A table maps (state, method) to its handler. During the handshake RabbitMQ answers most errors by closing
the socket, after a pause that slows down password guessing. This code does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq import __version__
from mirrormq.auth import access_errors, sasl
from mirrormq.auth.logins import OVERLOADED, Login, authenticate
from mirrormq.config.settings import Settings
from mirrormq.connections import heartbeats
from mirrormq.connections.states import ConnectionState
from mirrormq.errors import (
    AccessRefusedConnection,
    AmqpError,
    ChannelErrorHard,
    FrameSyntaxError,
    NotAllowed,
    UnexpectedFrame,
)
from mirrormq.events import connection_log
from mirrormq.events.connection_log import CloseCause, CloseReason
from mirrormq.metadata import records
from mirrormq.metadata.cluster_name import cluster_name
from mirrormq.wire import methods
from mirrormq.wire.fields import Table, table_of
from mirrormq.wire.frame_errors import unreadable_frame
from mirrormq.wire.frames import PROTOCOL_HEADER

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

PROTOCOL_HEADER_SIZE = 8
VERSIONS = {
    PROTOCOL_HEADER: (0, 9),
    b"AMQP\x01\x01\x00\x09": (0, 9),
    b"AMQP\x01\x01\x08\x00": (8, 0),
    b"AMQP\x01\x01\x09\x01": (8, 0),
}
"""Accepted protocol headers, with the version that connection.start then announces."""

SILENT_CLOSE_DELAY_MS = 3000
"""Milliseconds that RabbitMQ waits before it closes the socket of a client that failed to log in."""


def expected_so_far(received: bytes) -> bytes:
    """Return `received` if it can still become a protocol header, otherwise other bytes."""
    return received if any(header.startswith(received) for header in VERSIONS) else b"?"


def protocol_header(connection: Connection, received: bytes) -> bytes:
    """Check the first eight octets and send connection.start. Return the bytes that follow."""
    version = VERSIONS.get(received[:PROTOCOL_HEADER_SIZE])
    if version is None:
        connection_log.accepted(connection)
        connection.closed_because = connection_log.bad_header(received[:PROTOCOL_HEADER_SIZE])
        connection.output().append(PROTOCOL_HEADER)
        connection.finish()
        return b""
    broker = connection.broker
    connection.state = ConnectionState.STARTING
    mechanisms = broker.mechanisms(connection.peer)
    connection.send(
        0,
        methods.encode_connection_start(
            version[0],
            version[1],
            server_properties(broker.settings, cluster_name(broker.metadata.state, broker.settings.name)),
            " ".join(mechanisms).encode(),
            b"en_US",
        ),
    )
    return received[PROTOCOL_HEADER_SIZE:]


def begin(connection: Connection) -> None:
    """Start the handshake timer: a new client has `handshake_timeout` to open the connection."""
    broker = connection.broker
    due_ms = broker.clock.now_ms + int(broker.settings.handshake_timeout_s * 1000)
    broker.clock.at(due_ms, lambda: _too_slow(connection))


def _too_slow(connection: Connection) -> None:
    if connection.state in (
        ConnectionState.HEADER,
        ConnectionState.STARTING,
        ConnectionState.TUNING,
        ConnectionState.OPENING,
    ):
        connection_log.accepted_late(connection)
        connection.closed_because = connection_log.HANDSHAKE_TIMEOUT
        connection.finish()


def method(connection: Connection, payload: bytes) -> None:
    """Dispatch a method of channel 0."""
    decoded = methods.decode_method(payload)
    method_id = int.from_bytes(payload[:4], "big")
    handler = METHODS.get((connection.state, method_id))
    if handler is None:
        raise _unexpected(connection, method_id)
    try:
        handler(connection, decoded)
    except AmqpError as error:
        raise error.at(method_id) from None


def _unexpected(connection: Connection, method_id: int) -> AmqpError:
    return ChannelErrorHard("unexpected method in connection state " + connection.state.value).at(method_id)


def not_open(connection: Connection, kind: int, channel: int, payload: bytes) -> AmqpError:
    """Return the error for a frame of another channel before the connection is open."""
    return unexpected_frame(kind, payload)


def unexpected_frame(kind: int, payload: bytes) -> AmqpError:
    """Return the error for a frame of a kind that is not permitted here."""
    described = unreadable_frame(kind, payload, "").explanation.removesuffix(": ")
    return UnexpectedFrame(described, class_id=0)


def fail(connection: Connection, error: AmqpError) -> None:
    """Handle an error before the connection is open: send connection.close if permitted, then close the
    socket."""
    # As in RabbitMQ, a client that has not tuned the connection gets no connection.close.
    if connection.state is ConnectionState.OPENING and not error.silent:
        connection.close_with(error)
    else:
        close_silently(connection)


def close_silently(connection: Connection) -> None:
    """Close the socket after a pause, without connection.close."""
    connection.hold()
    connection.broker.clock.at(connection.broker.clock.now_ms + SILENT_CLOSE_DELAY_MS, connection.finish)


def start_ok(connection: Connection, method: methods.ConnectionStartOk) -> None:
    """Handle connection.start-ok: authenticate the client."""
    broker = connection.broker
    connection_log.accepted(connection)
    connection.client_properties = method.client_properties
    connection.mechanism = method.mechanism
    connection_log.named(connection)
    if connection.peer.direct_user is not None:
        _logged_in(connection, connection.peer.direct_user)
        return
    certificate_user, offered = connection.peer.certificate_user, broker.mechanisms(connection.peer)
    if method.mechanism == sasl.EXTERNAL and sasl.EXTERNAL in offered and certificate_user is None:
        anonymous = sasl.Credentials(sasl.EXTERNAL, "", None)
        _refuse_login(connection, anonymous, "the client has no certificate that names a user")
        return
    try:
        credentials = sasl.parse(method.mechanism, method.response, certificate_user, offered)
    except FrameSyntaxError as error:
        broker.events.authentication_failed(connection, None, error.explanation)
        raise
    # Hashing takes a while, and the client may have pipelined methods: none is read before the verdict.
    connection.hold()

    def decided(user: records.User | None, reason: str) -> None:
        connection.release()
        if user is None:
            _refuse_login(connection, credentials, reason)
        else:
            _logged_in(connection, user)

    def overloaded() -> None:
        connection.release()
        connection_log.login_refused(connection, credentials.mechanism, OVERLOADED)
        broker.events.authentication_failed(connection, credentials.user, OVERLOADED)
        connection.closed_because = CloseReason(CloseCause.ERROR, OVERLOADED)
        connection.finish()

    peer = connection.peer
    authenticate(
        broker,
        Login(credentials, peer.host, peer.is_loopback, decided, overloaded, lambda: not connection.finished),
    )


def _refuse_login(connection: Connection, credentials: sasl.Credentials, reason: str) -> None:
    broker = connection.broker
    connection_log.login_refused(connection, credentials.mechanism, reason)
    broker.events.authentication_failed(connection, credentials.user, reason)
    connection.closed_because = CloseReason(CloseCause.ERROR, reason)
    # Clients without this capability do not expect connection.close here: RabbitMQ only closes the socket.
    if connection.client_can("authentication_failure_close"):
        text = sasl.login_refused(credentials.mechanism)
        connection.close_with(AccessRefusedConnection(text))
    else:
        close_silently(connection)


def _logged_in(connection: Connection, user: records.User) -> None:
    connection.user = user
    connection.state = ConnectionState.TUNING
    settings = connection.broker.settings
    connection.broker.events.authenticated(connection)
    connection.send(
        0, methods.encode_connection_tune(settings.channel_max, settings.frame_max, settings.heartbeat_s)
    )


FRAME_MIN_SIZE = 4096


def tune_ok(connection: Connection, method: methods.ConnectionTuneOk) -> None:
    """Handle connection.tune-ok. The client may only lower the offered limits."""
    settings = connection.broker.settings
    _check_tuned("frame_max", method.frame_max, settings.frame_max, FRAME_MIN_SIZE)
    _check_tuned("channel_max", method.channel_max, settings.channel_max, 0)
    connection.frame_max = method.frame_max
    connection.channel_max = method.channel_max
    connection.heartbeat_s = method.heartbeat
    connection.set_frame_max(method.frame_max)
    connection.state = ConnectionState.OPENING
    heartbeats.start(connection)


def _check_tuned(name: str, wanted: int, offered: int, least: int) -> None:
    if wanted and wanted < least:
        raise NotAllowed(f"negotiated {name} = {wanted} is lower than the minimum allowed value ({least})")
    # Zero means "no limit", which is more than any offered limit.
    if offered and (not wanted or wanted > offered):
        raise NotAllowed(f"negotiated {name} = {wanted} is higher than the maximum allowed value ({offered})")


def open_(connection: Connection, method: methods.ConnectionOpen) -> None:
    """Handle connection.open: check the client's access to its vhost."""
    broker, user = connection.broker, connection.user
    name = method.virtual_host
    if name not in broker.vhosts:
        raise NotAllowed(access_errors.vhost_not_found(name))
    if not broker.permissions.vhost_access(user.name, name):
        raise NotAllowed(access_errors.vhost_refused(name, user.name))
    refusal = broker.client_limits.connection_refusal(user, name)
    if refusal is not None:
        raise NotAllowed(refusal)
    connection.vhost_name = name
    connection.variables = {"vhost": name, "username": user.name}
    connection.state = ConnectionState.OPEN
    connection.send(0, methods.encode_connection_open_ok())
    broker.connected(connection)
    connection_log.granted(connection)


def close(connection: Connection, method: methods.ConnectionClose) -> None:
    """Handle connection.close of the client."""
    connection.closed_by_client()


def update_secret(connection: Connection, method: methods.ConnectionUpdateSecret) -> None:
    """Handle connection.update-secret. Passwords do not expire, so the new secret has no effect."""
    connection.send(0, methods.encode_connection_update_secret_ok())


METHODS: dict[tuple[ConnectionState, int], Callable[[Connection, Any], None]] = {
    (ConnectionState.STARTING, methods.CONNECTION_START_OK): start_ok,
    (ConnectionState.TUNING, methods.CONNECTION_TUNE_OK): tune_ok,
    (ConnectionState.OPENING, methods.CONNECTION_OPEN): open_,
    (ConnectionState.OPEN, methods.CONNECTION_CLOSE): close,
    (ConnectionState.OPEN, methods.CONNECTION_UPDATE_SECRET): update_secret,
}


CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Capabilities of RabbitMQ 3.10, in its order."""


def server_properties(settings: Settings, cluster: str) -> Table:
    """Return the server properties of connection.start. Clients evaluate product and version, so these are
    RabbitMQ's; our name is extra."""
    return table_of(
        {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": cluster,
            "copyright": "Copyright (c) the MirrorMQ authors.",
            "information": "Licensed under the Apache License 2.0.",
            "platform": "Python",
            "product": settings.product,
            "version": settings.product_version,
            "broker": "MirrorMQ",
            "broker_version": __version__,
        }
    )
