"""What changes, told once a second to everybody who watches: the page's own road, beside RabbitMQ's API.

`GET /api/mirrormq/live` answers with an event stream that does not end. The first event is the recent history
of the totals, for the charts; then comes one event a second: totals and rates, nodes, the rows of queues in
which something happened, and how often the definitions have changed, and leases and jobs (a page that shows
some asks again when their number has grown). It is made once for all viewers; what differs between them is
which vhosts they see.

While nobody watches, nothing is made but a line of history every few seconds. A viewer who reads slowly
misses events instead of piling them up, and is told so (`more`), as it is when more queues changed than one
event tells. A stream ends when the user it was opened for is deleted or changed.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, ListReply, StreamReply
from mirrormq.management.counter_kinds import LENGTHS
from mirrormq.management.http_errors import HttpRefusal, encode
from mirrormq.management.live_rows import LiveRows, SentRow, busiest, news
from mirrormq.management.managed_node import ManagedNode
from mirrormq.management.paged_listing import rows_of
from mirrormq.management.resources import nodes, overview
from mirrormq.management.route_table import ApiRoute
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.changes import Change
from mirrormq.metadata.records import Job, Lease, Producer, User

INTERVAL_S = 1.0
"""Between two events: as fast as a reader follows numbers."""

VIEWERS_MAX = 100
"""Streams at a time, a fifth of the HTTP connections there may be."""

HISTORY_LINES_MAX = 600
"""Ten minutes of a watched node, fifty of one that nobody watches."""

UNAVAILABLE = 503

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
WATCHER = User("", tags=[access.MONITORING])
CHARTED = ("publish", "deliver_get", "ack", "redeliver")
"""The rates of a line of history."""
HEAD = b'{"at_ms":%d,"definitions":%d,"pipeline":%d,'
TOTALS = ("message_stats", "queue_totals", "object_totals", "rates_mode")


class LiveFrame(NamedTuple):
    """One second, ready to be sent."""

    number: int
    head: bytes
    totals: bytes
    nodes: bytes
    queues: list[tuple[str, bytes]]
    more: bool


class LivePush:
    """The streams of one node."""

    def __init__(self, node: ManagedNode, statistics: Statistics) -> None:
        self._node = node
        self._statistics = statistics
        self._viewers = 0
        self._closed = False
        self._frame = LiveFrame(0, b"", b"", b"", [], False)
        self._shares: dict[str, bytes] = {}
        """Totals of users who see their own vhosts only, in this frame."""
        self.rows = LiveRows(node, statistics)
        self._first = True
        """No list has changed before a page shows one."""
        self._changes = 0
        self._pipeline = 0
        self._failed = False
        self._wanted, self._news = asyncio.Event(), asyncio.Event()
        self._history: deque[list[float]] = deque(maxlen=HISTORY_LINES_MAX)
        self.routes = [ApiRoute("mirrormq/live", access.management, {"GET": self.watch})]
        node.metadata.listeners.append(self._count)

    def _count(self, change: Change) -> None:
        if isinstance(change.record, Lease | Job):
            self._pipeline += 1
        elif not isinstance(change.record, Producer):  # no page shows these
            self._changes += 1

    # -- viewers --------------------------------------------------------------------------------

    def watch(self, call: ApiRequest) -> StreamReply:
        """A stream for one viewer."""
        if self._viewers >= VIEWERS_MAX:
            raise HttpRefusal(UNAVAILABLE, "unavailable", f"{VIEWERS_MAX} viewers are watching already")
        return StreamReply(self._events(call), HEADERS)

    async def _events(self, call: ApiRequest) -> AsyncIterator[bytes]:
        self._viewers += 1
        self._wanted.set()
        try:
            if call.is_monitor:
                yield _event("history", encode(list(self._history)))
            seen = self._frame.number
            while not self._closed and call.state.users.get(call.user.name) == call.user:
                if self._frame.number == seen:
                    await self._news.wait()
                if self._frame.number > seen:
                    frame = self._frame
                    yield await self._told(frame, call, frame.more or frame.number > seen + 1)
                    seen = frame.number
        finally:
            self._viewers -= 1

    async def _told(self, frame: LiveFrame, call: ApiRequest, more: bool) -> bytes:
        visible = set(call.vhosts())
        rows = b",".join([row for vhost, row in frame.queues if vhost in visible])
        totals, members = frame.totals, frame.nodes
        if not call.is_monitor:
            totals, members = await self._share(call), b"[]"
        rest = b"true" if more else b"false"
        return _event("frame", b'%b"totals":%b,"nodes":%b,"queues":[%b],"more":%b}' % (
            frame.head, totals, members, rows, rest,
        ))  # fmt: skip

    async def _share(self, call: ApiRequest) -> bytes:
        name = call.user.name
        if name not in self._shares:
            self._shares[name] = encode(await self._totals(call))
        return self._shares[name]

    def close(self) -> None:
        """No more events; streams end."""
        self._node.metadata.listeners.remove(self._count)
        self._closed = True
        self._spread()

    # -- making frames --------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled: a frame a second while somebody watches, else a line of history now and then."""
        while True:
            began_s = time.monotonic()
            try:
                await self._tick()
                self._failed = False
            except Exception as error:  # whatever it is, it must not end the streams, nor fill the log
                if not self._failed:
                    self._node.warn("cannot tell viewers:\n" + "".join(traceback.format_exception(error)))
                self._failed = True
            await self._pause(time.monotonic() - began_s)

    async def _pause(self, spent_s: float) -> None:
        if self._viewers:
            return await asyncio.sleep(max(INTERVAL_S / 2, INTERVAL_S - spent_s))
        self._statistics.watched = self.rows.wanted and self._statistics.interval_s > INTERVAL_S
        self._first = True
        self._wanted.clear()
        try:
            await asyncio.wait_for(self._wanted.wait(), self._statistics.interval_s)
        except TimeoutError:
            pass
        return None

    async def _tick(self) -> None:
        call = ApiRequest(self._node, self._statistics, WATCHER, "GET", {}, {}, {}, b"")
        if not self._viewers:
            self._remember(await self._totals(call))
            return
        await self._sampled()
        # All at once: a node that does not answer holds a frame up once, and pages do not take us for dead.
        (rows, more), totals, members = await asyncio.gather(
            self._rows(call), self._totals(call), _settled(nodes.list_nodes(call))
        )
        self._remember(totals)
        head = HEAD % (time.time() * 1000, self._changes, self._pipeline)
        number = self._frame.number + 1
        self._frame = LiveFrame(
            number, head, encode(totals), encode([news(row) for row in members]), rows, more
        )
        self._shares.clear()
        self._spread()

    def _spread(self) -> None:
        told, self._news = self._news, asyncio.Event()
        told.set()

    async def _totals(self, call: ApiRequest) -> dict[str, Any]:
        whole = await _settled(overview.overview(call))
        return {name: whole.get(name, {}) for name in TOTALS}

    def _remember(self, totals: dict[str, Any]) -> None:
        counted, lengths = totals["message_stats"], totals["queue_totals"]
        rates = [counted.get(f"{name}_details", {}).get("rate", 0.0) for name in CHARTED]
        self._history.append([time.time(), *rates, *(lengths.get(name, 0) for name in LENGTHS)])

    async def _rows(self, call: ApiRequest) -> tuple[list[tuple[str, bytes]], bool]:
        """Queues of all nodes that are not as they were a second ago; a page begins with a list."""
        peer_rows = asyncio.ensure_future(call.peer_client.ask_all("live", asking_node=call.me))
        told, more = await self.rows.changed(call.me, call)
        for found in (await peer_rows).values():
            told += [SentRow(busy, vhost, row.encode()) for busy, vhost, row in found["rows"]]
            more = more or found["more"]
        first, self._first = self._first, False
        chosen = busiest(told)
        return [(each.vhost, each.row) for each in chosen], (more and not first) or len(told) > len(chosen)

    async def answer(self, call: ApiRequest, asking_node: str) -> dict[str, Any]:
        """The same for another node whose page is watched."""
        await self._sampled()
        told, more = await self.rows.changed(asking_node, call)
        return {"rows": [[each.busy, each.vhost, each.row.decode()] for each in told], "more": more}

    async def _sampled(self) -> None:
        """While somebody watches there is a sample a second."""
        if self._statistics.interval_s > INTERVAL_S:
            self._statistics.watched = True
            if time.monotonic() - self._statistics.sampled_at_s > INTERVAL_S / 2:
                await self._statistics.sample()


async def _settled(answer: Any) -> Any:
    """What a resource's handler gives, as plain values."""
    if inspect.isawaitable(answer):
        answer = await answer
    return await rows_of(answer) if isinstance(answer, ListReply) else answer


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
