"""Connections to one of several nodes. A dead or frozen node is avoided while another one answers.

A frozen node takes TCP connections, because the kernel does, and answers nothing. So handshakes are
staggered: if a node is silent for `STAGGER_S` the next one is tried beside it, and the first that answers is
used. A node that was silent or broke a connection is a *suspect* for a while: all connections of this process
try it last.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost
from mirrormq.spark.client.node_address import NodeAddress
from mirrormq.spark.client.spark_connection import CONNECT_TIMEOUT_S, SparkConnection

PATIENCE_S = 60.0
"""How long a cluster of which no node answers is tried again: restarts and elections take seconds."""

PAUSE_S = 0.2
"""Between two rounds over all nodes."""

REQUEST_TIMEOUT_S = 10.0
"""For the answer to a request that may be repeated: a failover takes 5 s. Other nodes are tried meanwhile."""

STAGGER_S = 0.5
"""Silence of a node during the handshake before the next one is tried too. A handshake takes milliseconds."""

PROBE_S = 2.0
"""For a step of a handshake that is only to see whether a node is alive. A busy node needs a tenth of it."""

SUSPECT_S = 30.0
"""How long a node that failed is tried last. A node that restarts needs seconds."""

_suspects: dict[tuple[str, int], float] = {}
"""Host and port → until when (time.monotonic). At most one entry for each configured node."""


@dataclass(frozen=True)
class Timeouts:
    """Limits of waiting for a node."""

    handshake_s: float = CONNECT_TIMEOUT_S
    request_s: float = REQUEST_TIMEOUT_S

    @property
    def hedge_s(self) -> float:
        """Silence of a node before a request is sent to the next one too."""
        return self.request_s / 5


def suspect(address: NodeAddress) -> None:
    """Remember that a node failed."""
    _suspects[address.host, address.port] = time.monotonic() + SUSPECT_S


def is_suspect(address: NodeAddress) -> bool:
    """Has the node failed within the last `SUSPECT_S`?"""
    return _suspects.get((address.host, address.port), 0.0) > time.monotonic()


def trusted_first(addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """The same nodes, suspects last, those that failed most recently at the end."""
    now_s = time.monotonic()
    return sorted(addresses, key=lambda each: max(0.0, _suspects.get((each.host, each.port), 0.0) - now_s))


class Nodes:
    """The nodes of one cluster that a client may use."""

    def __init__(
        self,
        addresses: Sequence[NodeAddress],
        patience_s: float = PATIENCE_S,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.addresses = addresses
        self.patience_s = patience_s
        self.timeouts = timeouts or Timeouts()

    @property
    def where(self) -> str:
        """All of them, for sentences."""
        return ", ".join(address.where for address in self.addresses)

    def connect(
        self, deadline_s: float | None = None, avoiding: NodeAddress | None = None
    ) -> SparkConnection:
        """A connection to the first node that answers, tried until `deadline_s` (time.monotonic's).

        Each node is tried once even if the deadline is over. A refusal, of a password for example, is final.
        """
        deadline_s = time.monotonic() + self.patience_s if deadline_s is None else deadline_s
        while True:
            candidates = [each for each in trusted_first(self.addresses) if each is not avoiding]
            try:
                return _Race(candidates, self.timeouts).run()
            except ConnectionLost as error:
                last = error
            if time.monotonic() + PAUSE_S >= deadline_s:
                break
            time.sleep(PAUSE_S)
        if len(self.addresses) == 1:
            raise last
        raise ConnectionLost(f"no broker answers at any of {self.where}; the last one said: {last}")

    def answers(self, address: NodeAddress) -> bool:
        """Does a node that has been silent take part in a handshake?"""
        try:
            with SparkConnection(address, self.timeouts.request_s, min(self.timeouts.handshake_s, PROBE_S)):
                return True
        except BrokerError:
            suspect(address)
            return False


class _Race:
    """Handshakes with several nodes, each begun when the one before fails or is silent."""

    def __init__(self, addresses: Sequence[NodeAddress], timeouts: Timeouts) -> None:
        self._left = list(addresses)
        self._timeouts = timeouts
        self._lock = threading.Lock()
        self._over = False
        self._silent: list[NodeAddress] = []
        """Begun, and neither connected nor failed."""
        self._done: queue.SimpleQueue[tuple[NodeAddress, SparkConnection | BrokerError]] = queue.SimpleQueue()

    def run(self) -> SparkConnection:
        try:
            return self._run()
        finally:
            with self._lock:
                self._over = True

    def _run(self) -> SparkConnection:
        last = ConnectionLost("no node is left to try")
        while self._left or self._silent:
            if self._left:
                self._begin(self._left.pop(0))
            try:
                address, found = self._done.get(
                    timeout=STAGGER_S if self._left else 2 * self._timeouts.handshake_s
                )
            except queue.Empty:
                if not self._left:
                    raise ConnectionLost(f"{self._silent[0].where} did not answer in time") from None
                continue
            self._silent.remove(address)
            if isinstance(found, SparkConnection):
                for silent in self._silent:
                    suspect(silent)
                return found
            if not isinstance(found, ConnectionLost):
                raise found
            suspect(address)
            last = found
        raise last

    def _begin(self, address: NodeAddress) -> None:
        self._silent.append(address)
        threading.Thread(target=self._try, args=(address,), daemon=True).start()

    def _try(self, address: NodeAddress) -> None:
        try:
            connection = SparkConnection(address, self._timeouts.request_s, self._timeouts.handshake_s)
        except BrokerError as error:
            self._done.put((address, error))
            return
        with self._lock:
            if not self._over:
                self._done.put((address, connection))
                return
        connection.drop()
