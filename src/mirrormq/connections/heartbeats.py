"""Heartbeats: ours when there was nothing else to send, and the client's, whose absence ends the connection.

A connection that is held is not read from, so its heartbeats are not missed: what holds it (an alarm,
replies that it does not fetch, a slow write of ours) is not a sign of its death.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.events import connection_log

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def start(connection: Connection) -> None:
    """Begin to send and to expect them; an interval of 0 means neither."""
    if connection.heartbeat_s:
        clock = connection.broker.clock
        clock.at(clock.now_ms + connection.heartbeat_s * 500, lambda: _beat(connection))


def _beat(connection: Connection) -> None:
    """Twice per interval, as the standard asks."""
    if connection.finished:
        return
    broker = connection.broker
    now, interval_s = broker.clock.now_ms, connection.heartbeat_s
    if not connection.held and now - connection.last_received_ms > interval_s * 2000:
        connection.closed_because = f"{connection_log.SILENT}, timeout: {interval_s}s"
        connection_log.silent(connection)
        connection.finish()
        return
    if now - connection.last_sent_ms >= interval_s * 500 and connection.writable:
        connection.output().append(HEARTBEAT_FRAME)
    broker.clock.at(now + interval_s * 500, lambda: _beat(connection))
