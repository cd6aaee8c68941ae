"""Identifiers of connections, channels and queues, `<NODE.STARTED.NUMBER.CHANNEL>`, in the format of Erlang
pids.

A connection has channel 0. It gets its number with the first use of its pid; numbers are never reused.
"""

from __future__ import annotations

from mirrormq.events.event_host import NumberedChannel, NumberedConnection
from mirrormq.metadata import records


class Pids:
    """Pids of one incarnation of a node."""

    def __init__(self, node: str, started_ms: int) -> None:
        self._node = node
        self._started_s = started_ms // 1000
        self._last_number = 0

    def of_connection(self, connection: NumberedConnection) -> str:
        """Return the pid of a connection."""
        return self._pid(connection, 0)

    def of_channel(self, channel: NumberedChannel) -> str:
        """Return the pid of a channel."""
        return self._pid(channel.connection, channel.number)

    def of_queue(self, record: records.Queue) -> str:
        """Return the pid of a queue's master."""
        return self.of_replica(record, record.node)

    def of_replica(self, record: records.Queue, node: str) -> str:
        """Return the pid of a queue's master or mirror on a node."""
        return f"<{node}.{self._started_s}.{record.queue_id}.0>"

    def _pid(self, connection: NumberedConnection, channel: int) -> str:
        if not connection.number:
            self._last_number += 1
            connection.number = self._last_number
        return f"<{self._node}.{self._started_s}.{connection.number}.{channel}>"
