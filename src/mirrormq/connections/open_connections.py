"""Open connections and channels of a node, for listings and statistics.

The broker knows its connections by the base class `ConnectionBase` only. Packages above the connections
get them here with their own types.
"""

from __future__ import annotations

from mirrormq.broker.broker import Broker
from mirrormq.channels.channel import Channel
from mirrormq.connections.connection import Connection


def open_connections(broker: Broker) -> list[Connection]:
    """Return the connections that have completed the handshake, oldest first."""
    found = []
    for connection in broker.connections:
        assert isinstance(connection, Connection)
        found.append(connection)
    return found


def open_channels(broker: Broker) -> list[Channel]:
    """Return the channels of all open connections."""
    return [channel for connection in open_connections(broker) for channel in connection.channels.values()]
