"""Heartbeats: sent when there is no other output. A client silent for two intervals is disconnected.

The node does not read from a held connection and does not count its missing heartbeats. The hold itself (an
alarm, replies that the client does not fetch, a slow write here) is no sign of a dead client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.events import connection_log

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def start(connection: Connection) -> None:
    """Start to send and expect heartbeats. An interval of 0 disables both."""
    if connection.heartbeat_s:
        clock = connection.broker.clock
        clock.at(clock.now_ms + connection.heartbeat_s * 500, lambda: _beat(connection))


def _beat(connection: Connection) -> None:
    """Check and send, twice per interval, as the specification requires."""
    if connection.finished:
        return
    broker = connection.broker
    now, interval_s = broker.clock.now_ms, connection.heartbeat_s
    if not connection.held and now - connection.last_received_ms > interval_s * 2000:
        connection.closed_because = connection_log.missed_heartbeats(connection, interval_s)
        connection.finish()
        return
    if now - connection.last_sent_ms >= interval_s * 500 and connection.writable:
        connection.output().append(HEARTBEAT_FRAME)
    broker.clock.at(now + interval_s * 500, lambda: _beat(connection))
