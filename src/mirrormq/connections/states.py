"""The states of a connection, in the order they are passed through."""

from __future__ import annotations

from enum import Enum


class ConnectionState(Enum):
    """Names are RabbitMQ's, as `list_connections` shows them."""

    HEADER = "pre_init"
    STARTING = "starting"
    SECURING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    OPEN = "running"
    CLOSING = "closing"
    CLOSED = "closed"
