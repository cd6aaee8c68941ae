"""Connections of a worker process, kept from task to task.

Spark reuses its Python processes: a task of the next micro-batch often runs in the process of an earlier one.
A handshake takes longer than reading a small batch. Spark ends a process that is idle for a minute, and its
connections with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.node_selection import Nodes, Timeouts
from mirrormq.spark.client.range_client import RangeClient

POOLED_MAX = 4
"""Connections that a process keeps: one for each order of nodes that its tasks prefer."""

POOLED_S = 60.0
"""Longest idle time. A firewall may forget a connection that is idle for longer."""

PoolKey = tuple[tuple[AmqpUri, ...], Timeouts]

_idle: dict[PoolKey, tuple[RangeClient, float]] = {}
"""Idle clients, the one used longest ago first, with the time of their last use."""


@contextmanager
def pooled(addresses: tuple[AmqpUri, ...], timeouts: Timeouts) -> Iterator[RangeClient]:
    """Provide a client of these nodes, with an open connection if the process has one.

    After an error, or if the caller does not fetch all replies, the connection is closed.
    """
    key = (addresses, timeouts)
    kept = _idle.pop(key, None)
    if kept is not None and time.monotonic() - kept[1] > POOLED_S:
        kept[0].close()
        kept = None
    if kept is None:
        range_client = RangeClient(Nodes(addresses, timeouts=timeouts))
    else:
        range_client = kept[0]
        range_client.resume()
    try:
        yield range_client
    except BaseException:
        range_client.close()
        raise
    if range_client.has_outstanding:
        range_client.close()
    elif key not in _idle:
        _idle[key] = (range_client, time.monotonic())
        while len(_idle) > POOLED_MAX:
            _idle.pop(next(iter(_idle)))[0].close()
    else:
        range_client.close()
