"""Live push: one event per second to every open page, as a server-sent event stream.

`GET /api/mirrormq/live` replies with an endless event stream. The first event contains the recent history of
the totals, for the charts. Each later event contains totals and rates, nodes, the rows of queues with
changes, and counters of changes to definitions and to leases and jobs. A page that shows such objects
requests them again when the counter grows. The event is built once for all viewers; only the visible vhosts
differ.

Without viewers, the node only records a line of history every few seconds. A slow viewer misses events
instead of queueing them, and its next event says so (`more`). The same flag is set if more queues changed
than one event contains. A stream ends when its user is deleted or changed.
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
from mirrormq.management.live_rows import LiveRows, SentRow, busiest, without_constant_fields
from mirrormq.management.managed_node import ManagedNode
from mirrormq.management.paged_listing import rows_of
from mirrormq.management.resources import nodes, overview
from mirrormq.management.route_table import ApiRoute
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.changes import Change
from mirrormq.metadata.records import Job, Lease, Producer, User

INTERVAL_S = 1.0
"""Interval between two events: as fast as a reader can follow numbers."""

VIEWERS_MAX = 100
"""Largest number of streams, a fifth of the limit of HTTP connections."""

HISTORY_LINES_MAX = 600
"""Lines of history: ten minutes with viewers, fifty without."""

UNAVAILABLE = 503

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
WATCHER = User("", tags=[access.MONITORING])
CHARTED = (
    "publish", "confirm", "deliver_get", "ack", "redeliver",
    "return_unroutable", "drop_unroutable", "disk_writes", "disk_reads",
)  # fmt: skip
"""Rates in a line of history."""
HEAD = b'{"at_ms":%d,"definitions":%d,"pipeline":%d,'
TOTALS = ("message_stats", "queue_totals", "object_totals", "rates_mode")


class LiveFrame(NamedTuple):
    """Encoded event of one second."""

    number: int
    head: bytes
    totals: bytes
    nodes: bytes
    queues: list[tuple[str, bytes]]
    more: bool


class LivePush:
    """Event streams of one node."""

    def __init__(self, node: ManagedNode, statistics: Statistics) -> None:
        self._node = node
        self._statistics = statistics
        self._viewers = 0
        self._closed = False
        self._frame = LiveFrame(0, b"", b"", b"", [], False)
        self._shares: dict[str, bytes] = {}
        """Totals in this frame of users who see only their own vhosts."""
        self.rows = LiveRows(node, statistics)
        self._first = True
        """Whether the next frame is the first since a page was opened: a page without a list needs no
        `more`."""
        self._changes = 0
        self._pipeline = 0
        self._failed = False
        self._wanted, self._frame_ready = asyncio.Event(), asyncio.Event()
        self._history: deque[list[float]] = deque(maxlen=HISTORY_LINES_MAX)
        self.routes = [ApiRoute("mirrormq/live", access.management, {"GET": self.watch})]
        node.metadata.listeners.append(self._count)

    def _count(self, change: Change) -> None:
        if isinstance(change.record, Lease | Job):
            self._pipeline += 1
        elif not isinstance(change.record, Producer):  # No page shows producers.
            self._changes += 1

    # -- viewers --------------------------------------------------------------------------------

    def watch(self, call: ApiRequest) -> StreamReply:
        """Open a stream for one viewer."""
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
                    await self._frame_ready.wait()
                if self._frame.number > seen:
                    # A gap in the numbers means that this viewer was too slow and missed frames.
                    frame = self._frame
                    yield await self._encoded_frame(frame, call, frame.more or frame.number > seen + 1)
                    seen = frame.number
        finally:
            self._viewers -= 1

    async def _encoded_frame(self, frame: LiveFrame, call: ApiRequest, more: bool) -> bytes:
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
        """End all streams."""
        self._node.metadata.listeners.remove(self._count)
        self._closed = True
        self._notify_viewers()

    # -- frames ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Build a frame per second while there are viewers, else a line of history per interval, until
        cancelled."""
        while True:
            began_s = time.monotonic()
            try:
                await self._tick()
                self._failed = False
            except Exception as error:  # Any error must neither end the streams nor fill the log.
                if not self._failed:
                    self._node.warn(
                        "cannot send live events to pages:\n" + "".join(traceback.format_exception(error))
                    )
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
        # Concurrently: a node that does not reply delays a frame once, and pages do not consider this node
        # dead.
        (rows, more), totals, members = await asyncio.gather(
            self._rows(call), self._totals(call), _settled(nodes.list_nodes(call))
        )
        self._remember(totals)
        head = HEAD % (time.time() * 1000, self._changes, self._pipeline)
        number = self._frame.number + 1
        self._frame = LiveFrame(
            number,
            head,
            encode(totals),
            encode([without_constant_fields(row) for row in members]),
            rows,
            more,
        )
        self._shares.clear()
        self._notify_viewers()

    def _notify_viewers(self) -> None:
        announced, self._frame_ready = self._frame_ready, asyncio.Event()
        announced.set()

    async def _totals(self, call: ApiRequest) -> dict[str, Any]:
        whole = await _settled(overview.overview(call))
        return {name: whole.get(name, {}) for name in TOTALS}

    def _remember(self, totals: dict[str, Any]) -> None:
        counted, lengths = totals["message_stats"], totals["queue_totals"]
        rates = [counted.get(f"{name}_details", {}).get("rate", 0.0) for name in CHARTED]
        self._history.append([time.time(), *rates, *(lengths.get(name, 0) for name in LENGTHS)])

    async def _rows(self, call: ApiRequest) -> tuple[list[tuple[str, bytes]], bool]:
        """Return the queues of all nodes that changed in the last second, and whether there are more."""
        peer_rows = asyncio.ensure_future(call.peer_client.ask_all("live", asking_node=call.me))
        changed_rows, more = await self.rows.changed(call.me, call)
        for found in (await peer_rows).values():
            changed_rows += [SentRow(busy, vhost, row.encode()) for busy, vhost, row in found["rows"]]
            more = more or found["more"]
        first, self._first = self._first, False
        chosen = busiest(changed_rows)
        truncated = len(changed_rows) > len(chosen)
        return [(each.vhost, each.row) for each in chosen], (more and not first) or truncated

    async def answer(self, call: ApiRequest, asking_node: str) -> dict[str, Any]:
        """Return the changed rows to another node whose page has viewers."""
        await self._sampled()
        changed_rows, more = await self.rows.changed(asking_node, call)
        return {"rows": [[each.busy, each.vhost, each.row.decode()] for each in changed_rows], "more": more}

    async def _sampled(self) -> None:
        """Sample the statistics once per second while there are viewers."""
        if self._statistics.interval_s > INTERVAL_S:
            self._statistics.watched = True
            if time.monotonic() - self._statistics.sampled_at_s > INTERVAL_S / 2:
                await self._statistics.sample()


async def _settled(answer: Any) -> Any:
    """Return the result of a resource's handler as plain values."""
    if inspect.isawaitable(answer):
        answer = await answer
    return await rows_of(answer) if isinstance(answer, ListReply) else answer


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
