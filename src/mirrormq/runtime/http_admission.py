"""HTTP connection limits: per node, per address, and a reserve for health checks and metrics.

A connection *waits* while its next request is incomplete. At a limit the node closes the oldest waiting
connection in favour of a new one, preferably of the same address. Clients that send half a request
therefore cannot lock out other clients. If no connection waits, the new connection may use the reserve. A
reserved connection serves health checks and metrics only; other requests get 429 (limit of the address) or
503 (limit of the node).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

HEAD_TIMEOUT_S = 5.0
"""RabbitMQ's limit for a request's head, counted from the connection or from the request's first byte."""

CONNECTIONS_MAX = 500
"""Maximum HTTP connections of a node. A browser opens six."""

CONNECTIONS_PER_ADDRESS_MAX = 250
"""Maximum HTTP connections of one address: a reverse proxy in front of forty browsers."""

RESERVED_MAX = 32
"""Maximum connections beyond the limits, for health checks and metrics."""

TOO_MANY_REQUESTS = 429
UNAVAILABLE = 503

RESERVED_PATHS = ("/metrics", "/api/health/", "/api/healthchecks/", "/api/aliveness-test/")


def is_reserved_path(path: str) -> bool:
    """Return whether monitoring needs this path most while a node is overloaded."""
    return path.startswith(RESERVED_PATHS)


class Admitted(Protocol):
    """Connection interface that the limits use."""

    address: str
    refusal: int
    """Status for requests that are not monitoring; 0 if every request is served."""

    def give_way(self) -> None:
        """Close in favour of another client."""

    def stop(self) -> None:
        """Close unless a request is being processed."""

    def close(self) -> None: ...


class HttpAdmission:
    """Admission control of all HTTP connections of a node."""

    def __init__(self) -> None:
        self.connections: dict[Admitted, None] = {}
        """All connections, oldest first."""
        self._waiting: dict[Admitted, None] = {}
        """Connections without a complete request, longest wait first."""
        self._per_address: Counter[str] = Counter()
        """Connections per address, without those of the reserve."""
        self._reserved = 0

    def admit(self, connection: Admitted) -> bool:
        """Register a new connection as waiting. Return False if it must be closed."""
        connection.refusal = self._make_room(connection.address)
        if connection.refusal:
            if self._reserved >= RESERVED_MAX and not self._evict(lambda other: bool(other.refusal)):
                return False
            self._reserved += 1
        else:
            self._per_address[connection.address] += 1
        self.connections[connection] = None
        self._waiting[connection] = None
        return True

    def waits(self, connection: Admitted, waiting: bool) -> None:
        """Record that a connection waits for its client, or no longer does."""
        if not waiting:
            self._waiting.pop(connection, None)
        elif connection in self.connections:
            self._waiting.setdefault(connection)

    def dismiss(self, connection: Admitted) -> None:
        """Remove a closed connection."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._waiting.pop(connection, None)
        if connection.refusal:
            self._reserved -= 1
            return
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]

    def _make_room(self, address: str) -> int:
        """Make room for one more connection. Return the refusal status if there is none."""
        if self._per_address[address] >= CONNECTIONS_PER_ADDRESS_MAX and not self._evict(
            lambda other: other.address == address and not other.refusal
        ):
            return TOO_MANY_REQUESTS
        if sum(self._per_address.values()) >= CONNECTIONS_MAX:
            crowded = self._busiest_waiting()
            if not self._evict(lambda other: other.address == crowded and not other.refusal):
                return UNAVAILABLE
        return 0

    def _busiest_waiting(self) -> str | None:
        """Return the address with most connections among those with a waiting connection."""
        addresses = {other.address for other in self._waiting if not other.refusal}
        return max(addresses, key=self._per_address.__getitem__, default=None)

    def _evict(self, may: Callable[[Admitted], bool]) -> bool:
        victim = next((other for other in self._waiting if may(other)), None)
        if victim is None:
            return False
        self.dismiss(victim)
        victim.give_way()
        return True
