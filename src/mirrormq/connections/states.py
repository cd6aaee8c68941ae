"""Connection states, in the order of their occurrence."""

from __future__ import annotations

from enum import Enum


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
