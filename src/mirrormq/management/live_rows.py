"""Which queues are not as they were: compared once a second by whoever watches, here or on another node.

Each node knows how its own queues are. A node whose page is watched asks the others, who remember for each
asker how their queues were when it asked the last time, and tell the rows of those that have changed since.
Whoever asks for the first time, or again after a pause, is told nothing but to look at the whole list.
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
"""Compared between two turns of the loop: about a millisecond."""

SLICE_ROWS = 50
"""Rows built between two turns, as in listings."""

ROWS_MAX = 200
"""Queues told of at a time, the busiest: four pages of a list."""

FORGOTTEN_S = 5.0
"""An asker that has not asked for so long has stopped watching: five events."""

NOT_NEWS = frozenset(
    {
        "applications", "arguments", "auth_mechanisms", "config_files", "contexts", "db_dir",
        "effective_policy_definition", "enabled_plugins", "exchange_types", "log_files",
    }
)  # fmt: skip
"""Long and always the same: who wants these asks the API once."""

Key = tuple[str, str]
Looks = tuple[Any, ...]


class SentRow(NamedTuple):
    """A queue that has changed: how much goes on in it, its vhost, and its row as JSON."""

    busy: float
    vhost: str
    row: bytes


class SeenRow(NamedTuple):
    """How the queues were when somebody asked."""

    at_s: float
    looks: dict[Key, Looks]


class LiveRows:
    """The queues that this node is master of, as each asker has seen them."""

    def __init__(self, node: ManagedNode, statistics: Statistics) -> None:
        self._node = node
        self._statistics = statistics
        self._seen: dict[str, SeenRow] = {}

    @property
    def wanted(self) -> bool:
        """Has anybody asked lately?"""
        now_s = time.monotonic()
        self._seen = {name: seen for name, seen in self._seen.items() if now_s - seen.at_s < FORGOTTEN_S}
        return bool(self._seen)

    async def changed(self, asking_node: str, call: ApiRequest) -> tuple[list[SentRow], bool]:
        """Rows that changed since this asker asked, and whether there are more."""
        before = self._seen[asking_node].looks if self.wanted and asking_node in self._seen else None
        now: dict[Key, Looks] = {}
        changed: list[tuple[float, Key]] = []
        live = [
            (vhost.name, queue)
            for vhost in self._node.broker.vhosts.values()
            for queue in vhost.local_queues()
        ]
        for start in range(0, len(live), SLICE_QUEUES):
            for vhost, queue in live[start : start + SLICE_QUEUES]:
                key = vhost, queue.name
                now[key] = looks = self._looks(queue)
                if before is not None and before.get(key) != looks:
                    changed.append((sum(map(abs, looks[1])), key))
            await asyncio.sleep(0)
        self._seen[asking_node] = SeenRow(time.monotonic(), now)
        told = await self._rows(call, heapq.nlargest(ROWS_MAX, changed))
        return told, before is None or len(changed) > ROWS_MAX

    async def _rows(self, call: ApiRequest, changed: list[tuple[float, Key]]) -> list[SentRow]:
        told: list[SentRow] = []
        for busy, key in changed:
            record = call.state.queues.get(key)
            if record is not None:
                told.append(SentRow(busy, key[0], encode(news(queues.row(call, record)))))
            if len(told) % SLICE_ROWS == 0:
                await asyncio.sleep(0)
        return told

    def _looks(self, queue: Queue) -> Looks:
        sample = self._statistics.last(queue)
        numbers, rates = (sample.numbers, sample.rates) if sample is not None else ((), ())
        return numbers, rates, len(queue.consumers.all)


def news(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what is always the same."""
    return {name: value for name, value in row.items() if name not in NOT_NEWS}


def busiest(told: list[SentRow]) -> list[SentRow]:
    """As many as one event tells."""
    return heapq.nlargest(ROWS_MAX, told, key=lambda each: each.busy)
