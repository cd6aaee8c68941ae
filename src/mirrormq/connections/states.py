"""Connection states, in the order of their occurrence."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """State of a connection. Values are RabbitMQ's, as `list_connections` shows them."""

    HEADER = "pre_init"
    STARTING = "starting"
    SECURING = "securing"
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
