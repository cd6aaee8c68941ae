"""Checkers of links: where they run, and what each acknowledgement mode promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from mirrormq.metadata.link_records import Link, LinkKey
from mirrormq.simulator.checkers import EndState, SimulatedCopy, overtaken, some
from mirrormq.simulator.run_history import RunHistory


class Route(Protocol):
    """Queues that a link connects."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def destination(self) -> str: ...


CROWDED_MS = 1_000
"""Time in which deliveries of a queue reach their link."""


class OneRunner:
    """Placement: an epoch of a link runs on one node, once per incarnation. A former holder ends as soon as
    it can know of the next one. In modes that allow forks, each side has its own history."""

    NOTICE_MS = 8_000
    """Time to learn of a new assignment: the timeout of the failure detector, an election, and the pause of
    a minority."""

    def __init__(self, *, parting: bool) -> None:
        self._parting = parting
        self._holders: dict[tuple[LinkKey, int, object], tuple[str, int]] = {}
        self._twice_since: dict[tuple[LinkKey, int, int], int] = {}
        self._wrong: list[str] = []

    def starts(self, record: Link, node: str, story: object) -> None:
        """Record that a node starts a runner."""
        holder = (node, record.incarnation)
        known = self._holders.setdefault((record.key, record.epoch, story), holder)
        if known != holder:
            self._wrong.append(f"{known[0]} and {node} both run link {record.name} in epoch {record.epoch}")

    def observe(self, now_ms: int, running: Sequence[tuple[Link, str]]) -> None:
        """Compare the runners of all nodes now."""
        counts = Counter((record.key, node) for record, node in running)
        for (key, node), count in counts.items():
            if count > 1:
                self._wrong.append(f"{node} runs link {key[2]} {count} times")
        newest: dict[LinkKey, int] = {}
        for record, _ in running:
            newest[record.key] = max(record.epoch, newest.get(record.key, 0))
        before, self._twice_since = self._twice_since, {}
        for record, node in running:
            if record.epoch == newest[record.key]:
                continue
            pair = (record.key, record.epoch, newest[record.key])
            since_ms = self._twice_since[pair] = before.get(pair, now_ms)
            if now_ms - since_ms > self.NOTICE_MS and not self._parting:
                self._wrong.append(f"{node} still runs link {record.name} in epoch {record.epoch}")

    def finish(self, end: EndState) -> Iterator[str]:
        yield from dict.fromkeys(self._wrong)


class LinksKeepOrder:
    """Order of links: in the destination, the first arrivals of the messages of one channel have the order in
    which they were published. While the source still holds a connection that the link has lost, later
    messages may pass those on it."""

    def __init__(self, routes: Sequence[Route], damaged: set[str], *, parting: bool) -> None:
        self._routes = routes
        self._damaged = damaged
        self._parting = parting

    def finish(self, end: EndState) -> Iterator[str]:
        history = end.history
        for route, copy in _destinations(self._routes, end) if not self._parting else ():
            excused = self._damaged | _received_while_crowded(history, route)
            first = dict.fromkeys(body for body in copy.bodies if body not in excused)
            wrong = overtaken(
                (sent.channel, sent, body) for body in first if (sent := history.sent.get(body)) is not None
            )
            if wrong:
                yield f"moved to {copy.queue} out of order: {some(wrong)}"


class LinksRepeatOnlyWhatComesAgain:
    """Repetition: the destination holds a message at most as often as the link received it. So `no-ack`,
    whose source sends everything once, repeats nothing."""

    def __init__(self, routes: Sequence[Route], *, parting: bool) -> None:
        self._routes = routes
        self._parting = parting

    def finish(self, end: EndState) -> Iterator[str]:
        received = Counter(record.body for record in end.history.received)
        for _, copy in _destinations(self._routes, end) if not self._parting else ():
            counts = Counter(copy.bodies)
            if wrong := [body for body, count in counts.items() if count > received[body]]:
                yield f"moved to {copy.queue} more often than received: {some(wrong)}"


class LinksLoseOnlyByBreaks:
    """Loss: with `on-publish` and `no-ack` a message is lost only if a connection or a node failed after its
    publish. With `on-confirm` none is lost (`checkers.ConfirmedIsKept`)."""

    def __init__(self) -> None:
        self.faults_end_ms = 0
        """End of the last fault, and of what follows from it."""

    def finish(self, end: EndState) -> Iterator[str]:
        history = end.history
        calm_ms = max([self.faults_end_ms, *history.broken_ms])
        held = {body for copy in end.filled() if copy.master for body in copy.bodies}
        lost = {
            body
            for body in history.confirmed.keys() - held - history.acknowledged.keys()
            if history.sent[body].queue in history.lossy and history.sent[body].at_ms > calm_ms
        }
        if lost:
            yield f"lost by a link without a break: {some(lost)}"


def _destinations(routes: Iterable[Route], end: EndState) -> Iterator[tuple[Route, SimulatedCopy]]:
    """Yield each route with the master copy of its destination, which no consumer has read from yet."""
    masters = {copy.queue: copy for copy in end.filled() if copy.master}
    for route in routes:
        if route.destination in masters:
            yield route, masters[route.destination]


def _received_while_crowded(history: RunHistory, route: Route) -> set[str]:
    return {
        record.body
        for record in history.received
        if record.link == route.name
        for first_ms, last_ms in history.crowded_ms.get(route.source, ())
        if first_ms <= record.at_ms <= last_ms + CROWDED_MS
    }
