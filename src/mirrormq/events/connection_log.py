"""Log entries about client connections, in RabbitMQ's words."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from mirrormq.errors import AmqpError, ChannelError
from mirrormq.events.event_host import EventConnection
from mirrormq.events.log_buffer import CHANNEL, CONNECTION
from mirrormq.wire.methods import METHOD_NAMES


class CloseCause(Enum):
    """Cause of the end of a connection; decides how its end is logged."""

    ERROR = "error"
    """An error that was logged when it happened."""
    HANDSHAKE = "handshake"
    """The client sent another protocol header, or was too slow."""
    MISSED_HEARTBEATS = "missed heartbeats"
    CLOSED_BY_CLIENT = "closed by client"
    """The client closed the socket without connection.close."""
    NOTHING_RECEIVED = "nothing received"
    """The client closed the socket before it sent anything."""
    NO_LOGIN = "no login"
    """The client closed the socket after connection.start, before connection.start-ok."""


class CloseReason(NamedTuple):
    """Cause of the end of a connection and its text for the log."""

    cause: CloseCause
    text: str


CLOSED_BY_CLIENT = CloseReason(CloseCause.CLOSED_BY_CLIENT, "client unexpectedly closed TCP connection")
NOTHING_RECEIVED = CloseReason(CloseCause.NOTHING_RECEIVED, "connection_closed_with_no_data_received")
NO_LOGIN = CloseReason(CloseCause.NO_LOGIN, "client closed TCP connection before connection.start-ok")
HANDSHAKE_TIMEOUT = CloseReason(CloseCause.HANDSHAKE, "handshake_timeout")


class PrintedState(Protocol):
    """Connection state under the name that RabbitMQ prints."""

    @property
    def value(self) -> str: ...


class LoggedConnection(EventConnection, Protocol):
    """Client connection with the facts that only its log entries contain."""

    @property
    def state(self) -> PrintedState: ...
    @property
    def awaits_start_ok(self) -> bool: ...
    @property
    def closed_because(self) -> CloseReason | None: ...


def bad_header(received: bytes) -> CloseReason:
    """Describe the bytes received instead of a protocol header, as Erlang prints them."""
    printable = received.isascii() and received.decode("ascii").isprintable()
    shown = f'"{received.decode("ascii")}"' if printable else ",".join(map(str, received))
    return CloseReason(CloseCause.HANDSHAKE, f"{{bad_header,<<{shown}>>}}")


def accepted(connection: LoggedConnection) -> None:
    """Log that a connection was accepted: at connection.start-ok, so that checks of load balancers, which end
    before it, leave no line."""
    _log("info", connection, f"accepting AMQP connection {_described(connection)})")


def accepted_late(connection: LoggedConnection) -> None:
    """Log that a connection was accepted which fails between connection.start and connection.start-ok."""
    if connection.awaits_start_ok:
        accepted(connection)


def named(connection: LoggedConnection) -> None:
    """Log the client-provided name, if there is one."""
    given = provided_name(connection)
    if given:
        text = f"connection {_described(connection, named=False)}) has a client-provided name: {given}"
        _log("info", connection, text)


def granted(connection: LoggedConnection) -> None:
    """Log that the client was granted access to its vhost."""
    user, vhost = connection.user.name, connection.vhost_name
    said = f"user '{user}' authenticated and granted access to vhost '{vhost}'"
    _log("info", connection, f"connection {_described(connection)}): {said}")


def login_refused(connection: LoggedConnection, mechanism: str, reason: str) -> None:
    """Log that a login was refused."""
    said = f"{mechanism} login refused: {_printable(reason)}"
    _log("error", connection, f"Error on AMQP connection {_described(connection)}, state: starting):\n{said}")


def failed(connection: LoggedConnection, error: AmqpError, channel: int) -> None:
    """Log an error that closes a channel or a connection."""
    why = _printable(error.explanation)
    operation = METHOD_NAMES.get((error.class_id or 0) << 16 | error.method_id, "none")
    caused = f"operation {operation} caused a {{}} exception {error.name.lower()}: "
    if isinstance(error, ChannelError):
        who = _described(connection, named=False) + _location(connection)
        text = f"Channel error on connection {who}), channel {channel}:\n{caused.format('channel')}{why}"
        _log("error", connection, text, CHANNEL)
    elif connection.vhost_name:
        who = _described(connection) + _location(connection)
        text = f"{who}, state: running), channel {channel}:\n{caused.format('connection')}{why}"
        _log("error", connection, f"Error on AMQP connection {text}")
    else:
        accepted_late(connection)
        user = f", user: '{connection.user.name}'" if connection.user.name else ""
        text = f"{_described(connection)}{user}, state: {connection.state.value}):\n{why}"
        _log("error", connection, f"Error on AMQP connection {text}")


def missed_heartbeats(connection: LoggedConnection, interval_s: int) -> CloseReason:
    """Log that heartbeats of the client were missed, and return that reason."""
    text = f"missed heartbeats from client, timeout: {interval_s}s"
    _log("error", connection, f"closing AMQP connection {_described(connection)}):\n{text}")
    return CloseReason(CloseCause.MISSED_HEARTBEATS, text)


def closed(connection: LoggedConnection) -> None:
    """Log that the connection closed."""
    cause, text = connection.closed_because or (None, "")
    who = f"closing AMQP connection {_described(connection)}"
    match cause:
        case CloseCause.NOTHING_RECEIVED | CloseCause.NO_LOGIN:
            _log("debug", connection, f"{who}):\n{text}")
        case CloseCause.CLOSED_BY_CLIENT:
            _log("warning", connection, f"{who}{_location(connection)}):\n{text}")
        case CloseCause.HANDSHAKE:
            _log("error", connection, f"{who}):\n{text}")
        case CloseCause.MISSED_HEARTBEATS:
            pass  # Logged when they were missed.
        case CloseCause.ERROR | None:
            _log("info", connection, f"{who}{_location(connection)})")


def provided_name(connection: LoggedConnection) -> str:
    """Return the client-provided connection name, or an empty text."""
    field = connection.client_properties.get("connection_name")
    if field is None or not isinstance(field.value, bytes):
        return ""
    return _printable(field.value.decode("utf-8", "replace"))


def _printable(text: str) -> str:
    """Replace control characters of a client's text, so that it can neither forge log lines nor control a
    terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _log(level: str, connection: LoggedConnection, text: str, category: str = CONNECTION) -> None:
    facts = {"connection": connection.name, "vhost": connection.vhost_name, "user": connection.user.name}
    known = {name: value for name, value in facts.items() if value}
    connection.broker.log_entries.add(level, category, text, **known)


def _described(connection: LoggedConnection, *, named: bool = True) -> str:
    given = provided_name(connection) if named else ""
    name = f"{connection.name} - {given}" if given else connection.name
    return f"{connection.broker.pids.of_connection(connection)} ({name}"


def _location(connection: LoggedConnection) -> str:
    """Return vhost and user of a connection that has opened its vhost."""
    if not connection.vhost_name:
        return ""
    return f", vhost: '{connection.vhost_name}', user: '{connection.user.name}'"
