"""What other nodes know: asked for over the links, in bounded pieces, and not waited for too long.

Every node knows what is declared. What goes on in a queue, its master knows; what a client does, the node
that it is connected to. Whoever is asked by HTTP asks those, all at once, and shows what came in time: of a
node that does not answer only what is declared is shown.
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
"""For one question: a busy node's turn takes milliseconds, and a person has not looked away yet."""

ROWS_PER_QUESTION = 500
"""About a megabyte of JSON: built in ten slices there, decoded in some milliseconds here."""

ROWS_MAX = 50_000
"""Of one kind from one node; beyond that a list is nothing that anybody reads."""


class PeerClient:
    """The other nodes that run and can be reached."""

    def __init__(self, cluster: ClusterInterface, me: str) -> None:
        self._cluster = cluster
        self._me = me

    @property
    def peers(self) -> list[str]:
        return [name for name in self._cluster.running if name != self._me]

    async def ask(self, peer: str, kind: str, **question: Any) -> Any:
        """One node's answer; None if there is none in time."""
        try:
            request = Request(VERB, [kind], question)
            async with asyncio.timeout(DEADLINE_S):
                return msgspec.json.decode(await self._cluster.ask(peer, request))
        except (ControlError, TimeoutError, msgspec.DecodeError):
            return None

    async def ask_all(self, kind: str, **question: Any) -> dict[str, Any]:
        """The answers of all who answer, by node."""
        peers = self.peers
        answers = await asyncio.gather(*(self.ask(peer, kind, **question) for peer in peers))
        return {peer: found for peer, found in zip(peers, answers, strict=True) if found is not None}

    async def rows(self, kind: str, **question: Any) -> list[dict[str, Any]]:
        """All rows of a kind that the other nodes have."""
        found = await asyncio.gather(*(self._rows_of(peer, kind, question) for peer in self.peers))
        return [row for rows in found for row in rows]

    async def _rows_of(self, peer: str, kind: str, question: dict[str, Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while len(rows) < ROWS_MAX:
            part = await self.ask(peer, kind, first=len(rows), **question)
            rows += part or []
            if not part or len(part) < ROWS_PER_QUESTION:
                break
        return rows

    async def by_owner(self, kind: str, wanted: dict[str, list[Any]], **question: Any) -> list[Any]:
        """Rows of certain things, each from the node that has it."""
        peers = set(self.peers)
        questions = [
            self.ask(peer, kind, items=items[start : start + ROWS_PER_QUESTION], **question)
            for peer, items in wanted.items()
            if peer in peers
            for start in range(0, len(items), ROWS_PER_QUESTION)
        ]
        return [row for rows in await asyncio.gather(*questions) for row in rows or ()]


def merged(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of several nodes as one: what is counted, rates and samples of the past are added."""
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
    """The clocks of two nodes may differ by a sample or so: then what is nearest is taken."""
    if not one or not other:
        return one or other
    at = {each["timestamp"]: each["sample"] for each in other}
    return [
        {"sample": each["sample"] + at.get(each["timestamp"], other[min(index, len(other) - 1)]["sample"]),
         "timestamp": each["timestamp"]}
        for index, each in enumerate(one)
    ]  # fmt: skip
