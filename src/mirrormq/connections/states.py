"""Connection states, in the order of their occurrence, and the transitions between them.

`connections.handshake.METHODS` says which method leads from one state to the next. Errors, the operator and
the loss of the socket lead to the last two states.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """State of a connection. Values are RabbitMQ's, as `list_connections` shows them."""

    HEADER = "pre_init"
    STARTING = "starting"
    TUNING = "tuning"
    OPENING = "opening"
    OPEN = "running"
    CLOSING = "closing"
    CLOSED = "closed"


HEADER: Final = ConnectionState.HEADER
STARTING: Final = ConnectionState.STARTING
OPEN: Final = ConnectionState.OPEN
CLOSING: Final = ConnectionState.CLOSING
CLOSED: Final = ConnectionState.CLOSED
"""States that are compared for every read or method. Compiled code finds a constant at once, and a member of
an enumeration by a search of some 600 instructions."""

TRANSITIONS: Final[Mapping[ConnectionState, frozenset[ConnectionState]]] = {
    HEADER: frozenset({STARTING, CLOSED}),
    STARTING: frozenset({ConnectionState.TUNING, CLOSING, CLOSED}),
    ConnectionState.TUNING: frozenset({ConnectionState.OPENING, CLOSED}),
    ConnectionState.OPENING: frozenset({OPEN, CLOSING, CLOSED}),
    OPEN: frozenset({CLOSING, CLOSED}),
    CLOSING: frozenset({CLOSED}),
    CLOSED: frozenset(),
}
"""States that may follow a state. CLOSING: connection.close or its reply was sent, and the client may still
read it. A client that has not tuned the connection gets no connection.close, unless it understands that its
login has failed."""
