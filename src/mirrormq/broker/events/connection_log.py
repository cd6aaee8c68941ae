"""What the log says of clients, in RabbitMQ's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.events.log_buffer import CHANNEL, CONNECTION
from mirrormq.errors import AmqpError, ChannelError
from mirrormq.wire.methods import METHOD_NAMES

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

UNEXPECTED = "client unexpectedly closed TCP connection"
NOTHING_RECEIVED = "connection_closed_with_no_data_received"
BAD_HEADER = "{bad_header,"
TOO_SLOW = "handshake_timeout"
SILENT = "missed heartbeats from client"


def bad_header(received: bytes) -> str:
    """What came instead of a protocol header, as Erlang writes it."""
    printable = received.isascii() and received.decode("ascii").isprintable()
    shown = f'"{received.decode("ascii")}"' if printable else ",".join(map(str, received))
    return f"{BAD_HEADER}<<{shown}>>}}"


def accepted(connection: Connection) -> None:
    """A client has said something."""
    _say("info", connection, f"accepting AMQP connection {_who(connection)})")


def named(connection: Connection) -> None:
    """It has said what it is called."""
    given = provided_name(connection)
    if given:
        text = f"connection {_who(connection, named=False)}) has a client-provided name: {given}"
        _say("info", connection, text)


def granted(connection: Connection) -> None:
    """It is in."""
    user, vhost = connection.user.name, connection.vhost_name
    said = f"user '{user}' authenticated and granted access to vhost '{vhost}'"
    _say("info", connection, f"connection {_who(connection)}): {said}")


def login_refused(connection: Connection, mechanism: str, reason: str) -> None:
    """It is not who it says."""
    said = f"{mechanism} login refused: {_printable(reason)}"
    _say("error", connection, f"Error on AMQP connection {_who(connection)}, state: starting):\n{said}")


def failed(connection: Connection, error: AmqpError, channel: int) -> None:
    """A client's mistake ends its channel, or its connection."""
    why = _printable(error.explanation)
    operation = METHOD_NAMES.get((error.class_id or 0) << 16 | error.method_id, "none")
    caused = f"operation {operation} caused a {{}} exception {error.name.lower()}: "
    if isinstance(error, ChannelError):
        who = _who(connection, named=False) + _place(connection)
        text = f"Channel error on connection {who}), channel {channel}:\n{caused.format('channel')}{why}"
        _say("error", connection, text, CHANNEL)
    elif connection.vhost_name:
        who = _who(connection) + _place(connection)
        text = f"{who}, state: running), channel {channel}:\n{caused.format('connection')}{why}"
        _say("error", connection, f"Error on AMQP connection {text}")
    else:
        user = f", user: '{connection.user.name}'" if connection.user.name else ""
        text = f"{_who(connection)}{user}, state: {connection.state.value}):\n{why}"
        _say("error", connection, f"Error on AMQP connection {text}")


def silent(connection: Connection) -> None:
    """Nothing was heard of it for too long."""
    text = f"closing AMQP connection {_who(connection)}):\n{connection.closed_because}"
    _say("error", connection, text)


def closed(connection: Connection) -> None:
    """It is gone."""
    why = connection.closed_because
    who = f"closing AMQP connection {_who(connection)}"
    if why == NOTHING_RECEIVED:
        _say("debug", connection, f"{who}):\n{why}")
    elif why == UNEXPECTED:
        _say("warning", connection, f"{who}{_place(connection)}):\n{why}")
    elif why.startswith(BAD_HEADER) or why == TOO_SLOW:
        _say("error", connection, f"{who}):\n{why}")
    elif not why.startswith(SILENT):
        _say("info", connection, f"{who}{_place(connection)})")


def provided_name(connection: Connection) -> str:
    """What the client calls itself."""
    field = connection.client_properties.get("connection_name")
    if field is None or not isinstance(field.value, bytes):
        return ""
    return _printable(field.value.decode("utf-8", "replace"))


def _printable(text: str) -> str:
    """A client's words: nothing in them may look like a line of the log, or be obeyed by a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _say(level: str, connection: Connection, text: str, category: str = CONNECTION) -> None:
    facts = {"connection": connection.name, "vhost": connection.vhost_name, "user": connection.user.name}
    known = {name: value for name, value in facts.items() if value}
    connection.broker.log_entries.add(level, category, text, **known)


def _who(connection: Connection, *, named: bool = True) -> str:
    given = provided_name(connection) if named else ""
    name = f"{connection.name} - {given}" if given else connection.name
    return f"{connection.broker.pids.of_connection(connection)} ({name}"


def _place(connection: Connection) -> str:
    """Where it is, once it is somewhere."""
    if not connection.vhost_name:
        return ""
    return f", vhost: '{connection.vhost_name}', user: '{connection.user.name}'"
