"""Client for facts of other nodes, requested over the peer links in bounded parts and with a deadline.

Every node knows the declared objects. Only a queue's master knows the state of the queue, and only the
node that a client is connected to knows the client. A node that receives an HTTP request queries these
nodes concurrently and shows the replies that arrive in time. For a node that does not reply it shows only
declarations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import ClusterInterface

VERB = "management"

DEADLINE_S = 2.0
"""Deadline of one request: a turn of a busy node takes milliseconds, and a user still waits for the page."""

ROWS_PER_REQUEST = 500
"""Rows per reply: about a megabyte of JSON, built in ten chunks and decoded in some milliseconds."""

ROWS_MAX = 50_000
"""Largest number of rows of one kind from one node; longer lists have no reader."""


class PeerClient:
    """Client for the other running and reachable nodes."""

    def __init__(self, cluster: ClusterInterface, me: str) -> None:
        self._cluster = cluster
        self._me = me

    @property
    def peers(self) -> list[str]:
        return [name for name in self._cluster.running if name != self._me]

    async def ask(self, peer: str, kind: str, **options: Any) -> Any:
        """Return the reply of one node; None if it does not arrive in time."""
        try:
            request = Request(VERB, [kind], options)
            async with asyncio.timeout(DEADLINE_S):
                return msgspec.json.decode(await self._cluster.ask(peer, request))
        except (ControlError, TimeoutError, msgspec.DecodeError):
            return None

    async def ask_all(self, kind: str, **options: Any) -> dict[str, Any]:
        """Return the replies of all nodes that reply, by node."""
        peers = self.peers
        answers = await asyncio.gather(*(self.ask(peer, kind, **options) for peer in peers))
        return {peer: found for peer, found in zip(peers, answers, strict=True) if found is not None}

    async def rows(self, kind: str, **options: Any) -> list[dict[str, Any]]:
        """Return all rows of a kind from the other nodes."""
        found = await asyncio.gather(*(self._rows_of(peer, kind, options) for peer in self.peers))
        return [row for rows in found for row in rows]

    async def _rows_of(self, peer: str, kind: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while len(rows) < ROWS_MAX:
            part = await self.ask(peer, kind, first=len(rows), **options)
            rows += part or []
            # A short part is the last one.
            if not part or len(part) < ROWS_PER_REQUEST:
                break
        return rows

    async def by_owner(self, kind: str, wanted: dict[str, list[Any]], **options: Any) -> list[Any]:
        """Return the rows of certain objects, each from the node that owns the object."""
        peers = set(self.peers)
        requests = [
            self.ask(peer, kind, items=items[start : start + ROWS_PER_REQUEST], **options)
            for peer, items in wanted.items()
            if peer in peers
            for start in range(0, len(items), ROWS_PER_REQUEST)
        ]
        return [row for rows in await asyncio.gather(*requests) for row in rows or ()]


def merged(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge the numbers of several nodes: counts, rates and past samples are added."""
    whole: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            whole[name] = _sum(whole[name], value) if name in whole else value
    return whole


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return merged([one, other])
    if isinstance(one, list) and isinstance(other, list):
        return _samples(one, other)
    if isinstance(one, bool) or not isinstance(one, int | float):
        return one
    return one + other


def _samples(one: list[Any], other: list[Any]) -> list[Any]:
    """Add samples by timestamp. Clocks of two nodes may differ by about one sample; then the nearest
    sample counts."""
    if not one or not other:
        return one or other
    known = {each["timestamp"]: each["sample"] for each in other}
    return [
        {"sample": each["sample"] + known.get(each["timestamp"], other[min(index, len(other) - 1)]["sample"]),
         "timestamp": each["timestamp"]}
        for index, each in enumerate(one)
    ]  # fmt: skip
