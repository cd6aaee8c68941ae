"""Names of the nodes behind addresses, for tasks that prefer a master or a mirror.

The process asks each node once, all at the same time. A node that does not reply within `PROBE_S` has no name
for now: a query does not wait for a frozen node only to prefer it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.ranges import range_protocol
from mirrormq.spark.client.client_errors import BrokerError
from mirrormq.spark.client.node_selection import PROBE_S, SUSPECT_S, Nodes, Timeouts
from mirrormq.spark.client.range_client import RangeClient

_names: dict[tuple[str, int], str] = {}
_asked_s: dict[tuple[str, int], float] = {}
"""Host and port → time at which the process asked last. At most one entry per configured node."""


def node_names(addresses: Sequence[AmqpUri], timeouts: Timeouts) -> list[str | None]:
    """Return the name of each node; None if it is not known. A silent node is asked again after
    `SUSPECT_S`."""
    now_s = time.monotonic()
    probes = []
    for address in addresses:
        place = (address.host, address.port)
        if place not in _names and now_s >= _asked_s.get(place, -SUSPECT_S) + SUSPECT_S:
            _asked_s[place] = now_s
            probes.append(threading.Thread(target=_ask, args=(address, timeouts), daemon=True))
    for probe in probes:
        probe.start()
    for probe in probes:
        probe.join(max(0.0, now_s + PROBE_S - time.monotonic()))
    return [_names.get((address.host, address.port)) for address in addresses]


def _ask(address: AmqpUri, timeouts: Timeouts) -> None:
    try:
        with RangeClient(Nodes((address,), 0.0, timeouts)) as range_client:
            answer = range_client.ask(range_protocol.queues())
    except BrokerError:
        return  # the driver's own connection reports what is wrong
    _names[address.host, address.port] = range_protocol.read_queues(answer.headers, bytes(answer.body))[0]
