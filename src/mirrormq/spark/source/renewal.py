"""Renewal of leases in a separate thread, while Spark works on a batch and sends no requests."""

from __future__ import annotations

import threading
from contextlib import suppress

from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_limits import IDLE_MS_DEFAULT, LEASE_OWNER_MS
from mirrormq.spark.client.client_errors import BrokerError
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.data_source_options import SourceOptions

INTERVAL_MIN_S = 0.2
"""Shortest interval, for leases whose idle limit is shorter than any batch."""


class Renewal:
    """Renewal of the leases of one query; a lease is added when it has taken messages."""

    def __init__(self, options: SourceOptions) -> None:
        self._nodes = Nodes(options.addresses, 0.0, options.timeouts)
        idle_s = (options.lease_idle_ms or IDLE_MS_DEFAULT) / 1000
        self._interval_s = max(INTERVAL_MIN_S, min(LEASE_OWNER_MS / 1000, idle_s) / 3)
        self._lock = threading.Lock()
        self._leases: dict[str, tuple[str, int, str]] = {}
        """Queue → lease, queue's id, owner."""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, queue: str, lease: str, queue_id: int, owner: str) -> None:
        """Renew this lease from now on."""
        with self._lock:
            self._leases[queue] = (lease, queue_id, owner)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def remove(self, queue: str) -> None:
        """Stop renewing the lease of a queue."""
        with self._lock:
            self._leases.pop(queue, None)

    def stop(self) -> None:
        """Stop renewing. The broker ends the lease after `LEASE_OWNER_MS` if it is empty."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(self._nodes.timeouts.request_s)

    def _run(self) -> None:
        with RangeClient(self._nodes) as range_client:
            while not self._over.wait(self._interval_s):
                with self._lock:
                    leases = dict(self._leases)
                requests = [
                    range_protocol.meant(range_protocol.renew(queue, lease), queue_id, owner)
                    for queue, (lease, queue_id, owner) in leases.items()
                ]
                with suppress(BrokerError):
                    # Refusals and errors are left to the query: it learns them when it settles its batch.
                    range_client.ask_all(requests)
