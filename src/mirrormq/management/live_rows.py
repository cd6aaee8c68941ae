"""Detection of changed queues: each node compares its queues once per second, for pages here and on other
nodes.

Each node knows the state of its own queues. A node with viewers requests changes from its peers. A peer
remembers per requesting node how its queues were at the previous request and returns the rows that changed
since. A node that requests for the first time, or after a pause, gets no rows and fetches the whole list.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrormq.management.api_request import ApiRequest
from mirrormq.management.http_errors import encode
from mirrormq.management.managed_node import ManagedNode
from mirrormq.management.resources import queues
from mirrormq.management.statistics import Statistics

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

SLICE_QUEUES = 500
"""Queues compared between two turns of the loop: about a millisecond."""

SLICE_ROWS = 50
"""Rows built between two turns, as in listings."""

ROWS_MAX = 200
"""Queues per event, the busiest first: four pages of a list."""

FORGOTTEN_S = 5.0
"""Time without a request after which a node no longer counts as watching: five events."""

CONSTANT_FIELDS = frozenset(
    {
        "applications", "arguments", "auth_mechanisms", "config_files", "contexts", "db_dir",
        "effective_policy_definition", "enabled_plugins", "exchange_types", "log_files",
    }
)  # fmt: skip
"""Long and constant fields, which pages request from the API once."""

Key = tuple[str, str]
QueueState = tuple[Any, ...]


class SentRow(NamedTuple):
    """Changed queue: its activity, its vhost, and its row as JSON."""

    busy: float
    vhost: str
    row: bytes


class SeenRow(NamedTuple):
    """State of the queues at a node's last request."""

    at_s: float
    states: dict[Key, QueueState]


class LiveRows:
    """Queues that this node is master of, as each requesting node last saw them."""

    def __init__(self, node: ManagedNode, statistics: Statistics) -> None:
        self._node = node
        self._statistics = statistics
        self._seen: dict[str, SeenRow] = {}

    @property
    def wanted(self) -> bool:
        """Whether any node has requested changes recently."""
        now_s = time.monotonic()
        self._seen = {name: seen for name, seen in self._seen.items() if now_s - seen.at_s < FORGOTTEN_S}
        return bool(self._seen)

    async def changed(self, asking_node: str, call: ApiRequest) -> tuple[list[SentRow], bool]:
        """Return the rows that changed since this node's last request, and whether there are more."""
        before = self._seen[asking_node].states if self.wanted and asking_node in self._seen else None
        now: dict[Key, QueueState] = {}
        changed: list[tuple[float, Key]] = []
        live = [
            (vhost.name, queue)
            for vhost in self._node.broker.vhosts.values()
            for queue in vhost.local_queues()
        ]
        for start in range(0, len(live), SLICE_QUEUES):
            for vhost, queue in live[start : start + SLICE_QUEUES]:
                key = vhost, queue.name
                now[key] = queue_state = self._queue_state(queue)
                if before is not None and before.get(key) != queue_state:
                    changed.append((sum(map(abs, queue_state[1])), key))
            await asyncio.sleep(0)
        self._seen[asking_node] = SeenRow(time.monotonic(), now)
        rows = await self._rows(call, heapq.nlargest(ROWS_MAX, changed))
        return rows, before is None or len(changed) > ROWS_MAX

    async def _rows(self, call: ApiRequest, changed: list[tuple[float, Key]]) -> list[SentRow]:
        rows: list[SentRow] = []
        for busy, key in changed:
            record = call.state.queues.get(key)
            if record is not None:
                rows.append(SentRow(busy, key[0], encode(without_constant_fields(queues.row(call, record)))))
            if len(rows) % SLICE_ROWS == 0:
                await asyncio.sleep(0)
        return rows

    def _queue_state(self, queue: Queue) -> QueueState:
        sample = self._statistics.last(queue)
        numbers, rates = (sample.numbers, sample.rates) if sample is not None else ((), ())
        return numbers, rates, len(queue.consumers.all)


def without_constant_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its constant fields."""
    return {name: value for name, value in row.items() if name not in CONSTANT_FIELDS}


def busiest(rows: list[SentRow]) -> list[SentRow]:
    """Return the busiest rows, as many as one event contains."""
    return heapq.nlargest(ROWS_MAX, rows, key=lambda row: row.busy)
