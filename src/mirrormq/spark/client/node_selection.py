"""Connections to one of several nodes. Clients avoid a dead or frozen node while another one replies.

A frozen node accepts TCP connections, because the kernel does, and replies to nothing. Handshakes are
therefore staggered: if a node is silent for `STAGGER_S` the client also tries the next one, and uses the
first that replies. A node that was silent or broke a connection is a *suspect* for `SUSPECT_S`: all
connections of this process try it last.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost
from mirrormq.spark.client.spark_connection import CONNECT_TIMEOUT_S, SparkConnection

PATIENCE_S = 60.0
"""Time to retry a cluster of which no node replies: restarts and elections take seconds."""

PAUSE_S = 0.2
"""Pause between two rounds over all nodes."""

REQUEST_TIMEOUT_S = 10.0
"""Time limit for the reply to a repeatable request: a failover takes 5 s. The client tries other nodes
meanwhile."""

STAGGER_S = 0.5
"""Silence of a node during the handshake before the client tries the next one too. A handshake takes
milliseconds."""

PROBE_S = 2.0
"""Time limit for a handshake step that only probes a node. A busy node needs a tenth of it."""

SUSPECT_S = 30.0
"""Time for which a failed node is tried last. A node that restarts needs seconds."""

_suspects: dict[tuple[str, int], float] = {}
"""Host and port → end of suspicion (time.monotonic). At most one entry per configured node."""


@dataclass(frozen=True)
class Timeouts:
    """Time limits of waiting for a node."""

    handshake_s: float = CONNECT_TIMEOUT_S
    request_s: float = REQUEST_TIMEOUT_S

    @property
    def hedge_s(self) -> float:
        """Silence of a node before a request is also sent to the next one."""
        return self.request_s / 5


def suspect(address: AmqpUri) -> None:
    """Mark a node as failed."""
    _suspects[address.host, address.port] = time.monotonic() + SUSPECT_S


def is_suspect(address: AmqpUri) -> bool:
    """Whether the node has failed within the last `SUSPECT_S`."""
    return _suspects.get((address.host, address.port), 0.0) > time.monotonic()


def trusted_first(addresses: Sequence[AmqpUri]) -> list[AmqpUri]:
    """Sort the nodes: suspects last, the most recently failed at the end."""
    now_s = time.monotonic()
    return sorted(addresses, key=lambda each: max(0.0, _suspects.get((each.host, each.port), 0.0) - now_s))


class Nodes:
    """Nodes of one cluster that a client may use."""

    def __init__(
        self,
        addresses: Sequence[AmqpUri],
        patience_s: float = PATIENCE_S,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.addresses = addresses
        self.patience_s = patience_s
        self.timeouts = timeouts or Timeouts()

    @property
    def where(self) -> str:
        """Addresses of all nodes, for messages."""
        return ", ".join(address.where for address in self.addresses)

    def connect(self, deadline_s: float | None = None, avoiding: AmqpUri | None = None) -> SparkConnection:
        """Connect to the first node that replies, until `deadline_s` (of time.monotonic).

        Each node is tried once even after the deadline. A refusal, of a password for example, is final.
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
        raise ConnectionLost(f"no broker answers at any of {self.where}; the last error is: {last}")

    def answers(self, address: AmqpUri) -> bool:
        """Whether a silent node completes a handshake."""
        try:
            with SparkConnection(address, self.timeouts.request_s, min(self.timeouts.handshake_s, PROBE_S)):
                return True
        except BrokerError:
            suspect(address)
            return False


class _Race:
    """Handshakes with several nodes, each started when the one before fails or is silent."""

    def __init__(self, addresses: Sequence[AmqpUri], timeouts: Timeouts) -> None:
        self._left = list(addresses)
        self._timeouts = timeouts
        self._lock = threading.Lock()
        self._over = False
        self._silent: list[AmqpUri] = []
        """Nodes whose handshake was started and has neither completed nor failed."""
        self._done: queue.SimpleQueue[tuple[AmqpUri, SparkConnection | BrokerError]] = queue.SimpleQueue()

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
            # A refusal (wrong password, missing vhost) is the same on every node: retrying others only
            # delays it.
            if not isinstance(found, ConnectionLost):
                raise found
            suspect(address)
            last = found
        raise last

    def _begin(self, address: AmqpUri) -> None:
        self._silent.append(address)
        threading.Thread(target=self._try, args=(address,), daemon=True).start()

    def _try(self, address: AmqpUri) -> None:
        try:
            connection = SparkConnection(address, self._timeouts.request_s, self._timeouts.handshake_s)
        except BrokerError as error:
            self._done.put((address, error))
            return
        # A handshake that completes after the race is over has no owner: close it.
        with self._lock:
            if not self._over:
                self._done.put((address, connection))
                return
        connection.drop()
