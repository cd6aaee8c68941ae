"""Connections of a worker process, kept from task to task.

Spark reuses its Python processes: a task of the next micro-batch often runs in the process of an earlier one.
A handshake takes longer than reading or publishing a small batch. Spark ends a process that is idle for a
minute, and its connections with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.node_selection import Nodes, Timeouts
from mirrormq.spark.client.range_client import RangeClient

POOLED_MAX = 4
"""Connections of one kind that a process keeps: one for each order of nodes that its tasks prefer."""

POOLED_S = 60.0
"""Longest idle time. A firewall may forget a connection that is idle for longer."""

PoolKey = tuple[tuple[AmqpUri, ...], Timeouts]


class Closable(Protocol):
    """Connection, or client with one."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class IdlePool(Generic[T]):
    """Idle connections of one kind, one for each list of nodes."""

    def __init__(self) -> None:
        self._idle: dict[PoolKey, tuple[T, float]] = {}
        """Connections with the time of their last use, the one used longest ago first."""

    def take(self, key: PoolKey) -> T | None:
        """Return the idle connection to these nodes, which is the caller's from now on."""
        kept = self._idle.pop(key, None)
        if kept is None:
            return None
        if time.monotonic() - kept[1] > POOLED_S:
            kept[0].close()
            return None
        return kept[0]

    def give(self, key: PoolKey, connection: T) -> None:
        """Keep a connection for the next task."""
        if key in self._idle:
            connection.close()
            return
        self._idle[key] = (connection, time.monotonic())
        while len(self._idle) > POOLED_MAX:
            self._idle.pop(next(iter(self._idle)))[0].close()

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.popitem()[1][0].close()


range_clients: IdlePool[RangeClient] = IdlePool()


@contextmanager
def pooled(addresses: tuple[AmqpUri, ...], timeouts: Timeouts) -> Iterator[RangeClient]:
    """Provide a client of these nodes, with an open connection if the process has one.

    After an error, or if the caller does not fetch all replies, the connection is closed.
    """
    key = (addresses, timeouts)
    range_client = range_clients.take(key)
    if range_client is None:
        range_client = RangeClient(Nodes(addresses, timeouts=timeouts))
    else:
        range_client.resume()
    try:
        yield range_client
    except BaseException:
        range_client.close()
        raise
    if range_client.has_outstanding:
        range_client.close()
    else:
        range_clients.give(key, range_client)
