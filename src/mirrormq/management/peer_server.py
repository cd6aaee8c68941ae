"""Server side of `peer_client`: replies of this node to the API of another node, built in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mirrormq.connections.open_connections import open_connections
from mirrormq.control.control_protocol import EXIT_USAGE, ControlError
from mirrormq.errors import AmqpError
from mirrormq.management import access, detailed_statistics, object_json, sample_ranges
from mirrormq.management.api_request import ApiRequest, declared
from mirrormq.management.http_errors import HttpRefusal, encode
from mirrormq.management.live_push import LivePush
from mirrormq.management.managed_node import ManagedNode
from mirrormq.management.paged_listing import SLICE_ROWS
from mirrormq.management.peer_client import ROWS_PER_REQUEST
from mirrormq.management.resources import (
    channels,
    connections,
    consumers,
    exchanges,
    nodes,
    overview,
    queues,
    reset,
)
from mirrormq.management.resources import vhosts as vhost_rows
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.records import User

PEER_USER = User("", tags=[access.MONITORING])
"""User of requests from other nodes. A node sees everything and filters what its own user may see."""

Options = dict[str, Any]


class PeerServer:
    """Replies of one node to its peers."""

    def __init__(self, node: ManagedNode, statistics: Statistics, live: LivePush) -> None:
        self._node = node
        self._statistics = statistics
        self._live = live

    async def answer(self, kind: str, options: Options) -> str:
        """Return the reply as JSON text."""
        handler = KINDS.get(kind)
        query = options.get("query", {})
        call = ApiRequest(
            self._node, self._statistics, PEER_USER, "GET", {}, query, {}, b"", sample_ranges.read(query)
        )
        if kind == "live":
            return encode(await self._live.answer(call, options["asking_node"])).decode()
        if handler is None:
            raise ControlError(
                f"This node's API does not know the request '{kind}': its version may be older.", EXIT_USAGE
            )
        return (await handler(call, options)).decode()


async def _rows(items: Sequence[Any], row: Callable[[Any], Any], first: int = 0) -> bytes:
    """Return one reply's share of the rows, from index `first` on."""
    pieces: list[bytes] = []
    part = items[first : first + ROWS_PER_REQUEST]
    for start in range(0, len(part), SLICE_ROWS):
        pieces.append(encode([row(item) for item in part[start : start + SLICE_ROWS]])[1:-1])
        await asyncio.sleep(0)
    return b"[" + b",".join(pieces) + b"]"


async def _queues(call: ApiRequest, options: Options) -> bytes:
    show = queues.details if options.get("details") else queues.row
    keys = [(vhost, name) for vhost, name in options["items"]]
    found = [record for key in keys if (record := call.state.queues.get(key)) is not None]
    return await _rows([record for record in found if queues.is_here(call, record)], lambda r: show(call, r))


async def _connections(call: ApiRequest, options: Options) -> bytes:
    return await _rows(
        object_json.connections(call), lambda each: connections.row(call, each), options.get("first", 0)
    )


async def _channels(call: ApiRequest, options: Options) -> bytes:
    visible, wanted = object_json.connections(call), options.get("connection")
    found = [connection for connection in visible if wanted is None or connection.name == wanted]
    return await _rows(
        object_json.channels(found), lambda each: object_json.channel(call, each), options.get("first", 0)
    )


async def _consumers(call: ApiRequest, options: Options) -> bytes:
    found = consumers.here(call, options["vhosts"])
    return await _rows(found, lambda each: object_json.consumer(*each), options.get("first", 0))


async def _exchanges(call: ApiRequest, options: Options) -> bytes:
    """Return the exchanges with any counted message."""
    records = [
        record for vhost in options["vhosts"] for _, record in sorted(call.state.exchanges_of(vhost).items())
    ]
    busy = [record for record in records if exchanges.counted_here(call, record)]
    return await _rows(
        busy,
        lambda record: [record.vhost, record.name, exchanges.counted_here(call, record)],
        options.get("first", 0),
    )


async def _connection(call: ApiRequest, options: Options) -> bytes:
    for connection in open_connections(call.node.broker):
        if connection.name == options["name"]:
            return encode(connections.row(call, connection, ""))
    return encode(None)


async def _channel(call: ApiRequest, options: Options) -> bytes:
    return encode(channels.here(call, options["name"]))


async def _places(call: ApiRequest, options: Options) -> bytes:
    return encode(await detailed_statistics.here(call, options["vhost"], options["side"], options["name"]))


async def _close(call: ApiRequest, options: Options) -> bytes:
    """Close the matching connections and return their number."""
    wanted = [
        connection
        for connection in open_connections(call.node.broker)
        if options["value"] == (connection.name if options["by"] == "name" else connection.user.name)
    ]
    connections.close_all(call, wanted, options["actor"], options["reason"])
    return encode(len(wanted))


async def _declare_queue(call: ApiRequest, options: Options) -> bytes:
    user = call.state.users.get(options["user"], PEER_USER)
    wanted = {name: options[name] for name in ("durable", "auto_delete", "arguments")}
    try:
        await call.node.direct(user, options["vhost"]).declare_queue(options["name"], **wanted)
    except AmqpError as error:
        refusal: HttpRefusal = declared(error)
        return encode([refusal.status, refusal.error, refusal.reason])
    finally:
        call.node.changed()
    return encode([])


async def _node(call: ApiRequest, options: Options) -> bytes:
    return encode(nodes.own_row(call))


async def _memory(call: ApiRequest, options: Options) -> bytes:
    return encode(nodes.own_memory(call))


async def _overview(call: ApiRequest, options: Options) -> bytes:
    return encode(overview.own_part(call, options["vhosts"], options["user"]))


async def _vhosts(call: ApiRequest, options: Options) -> bytes:
    return encode({name: vhost_rows.counted_here(call, name) for name in options["vhosts"]})


async def _start_anew(call: ApiRequest, options: Options) -> bytes:
    await call.statistics.start_anew()
    return b"[]"


async def _timeline(call: ApiRequest, options: Options) -> bytes:
    return encode(call.node.timeline.events)


async def _timeline_events(call: ApiRequest, options: Options) -> bytes:
    """Merge events that only a new master knows into the timeline."""
    call.node.timeline.merge(options["events"])
    return b"[]"


KINDS: dict[str, Callable[[ApiRequest, Options], Awaitable[bytes]]] = {
    "queues": _queues,
    "connections": _connections,
    "connection": _connection,
    "channels": _channels,
    "channel": _channel,
    "consumers": _consumers,
    "exchanges": _exchanges,
    "places": _places,
    "close": _close,
    "declare_queue": _declare_queue,
    "node": _node,
    "memory": _memory,
    "overview": _overview,
    "vhosts": _vhosts,
    reset.KIND: _start_anew,
    "timeline": _timeline,
    "heard": _timeline_events,
}
