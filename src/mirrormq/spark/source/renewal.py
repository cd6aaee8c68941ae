"""Renewal of leases from a thread of its own, while Spark works on a batch and asks for nothing."""

from __future__ import annotations

import threading

from mirrormq.ranges import questions
from mirrormq.ranges.limits import IDLE_MS_DEFAULT, LEASE_OWNER_MS
from mirrormq.ranges.reasons import NO_LEASE, NO_QUEUE
from mirrormq.spark.client.asking import Asker
from mirrormq.spark.client.errors import BrokerError, Refused
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.options import SourceOptions
from mirrormq.wire.fields import Table

INTERVAL_MIN_S = 0.2
"""For leases whose idle limit is shorter than any batch."""


class Renewal:
    """Renews the leases of one query; each lease is named when it has taken messages."""

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

    def stop(self) -> None:
        """Renew no more. Leases that hold nothing end, so that a finished query leaves none behind."""
        self._over.set()
        if self._thread is None:
            return
        self._thread.join(self._nodes.timeouts.request_s)
        try:
            with Asker(self._nodes) as asker:
                for queue, (lease, queue_id, _) in self._leases.items():
                    self._ask(asker, questions.meant(questions.release(queue, lease, empty=True), queue_id))
        except BrokerError:
            pass  # the idle limit ends it

    def _run(self) -> None:
        with Asker(self._nodes) as asker:
            while not self._over.wait(self._interval_s):
                with self._lock:
                    leases = dict(self._leases)
                for queue, (lease, queue_id, owner) in leases.items():
                    try:
                        self._ask(asker, questions.meant(questions.renew(queue, lease), queue_id, owner))
                    except BrokerError:
                        break  # no node answers: the query itself will say so

    def _ask(self, asker: Asker, question: Table) -> None:
        try:
            asker.ask(question)
        except Refused as error:
            # A lease that has ended is noticed, and told, when its batch is settled.
            if error.reason not in (NO_LEASE, NO_QUEUE):
                raise
