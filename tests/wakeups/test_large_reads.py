"""Share of a turn that a client with large bodies gets, read as uvloop reads: until it is told to pause."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.connections.connection import Connection
from mirrormq.runtime.amqp_socket import AmqpSocket
from mirrormq.runtime.large_reads import LargeReads
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.large_bodies import LARGE_BYTES
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.wakeups.nodes import FRAME_MAX, World, run

MIB = 1024 * 1024
COUNT = 16
TURN_BYTES_MAX = 3 * MIB
"""Share of a turn, and the read that exceeds it."""


def test_a_client_with_large_bodies_is_read_up_to_its_share_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(_reads_up_to_its_share, 1, tmp_path, monkeypatch)


async def _reads_up_to_its_share(world: World) -> None:
    client = await world.connect()
    client.send(methods.encode_queue_declare("q"), methods.encode_confirm_select())
    await client.until(methods.CONFIRM_SELECT_OK)
    application = world.nodes[0].application
    assert application is not None
    ((connection, socket),) = application.sockets.by_connection.items()
    assert isinstance(connection, Connection) and isinstance(socket, AmqpSocket)
    publish = method_frame(1, methods.encode_basic_publish("", "q"))
    message = publish + build_frames(1, encode_properties(BasicProperties()), b"x" * MIB, FRAME_MAX)
    stream = memoryview(message * COUNT)
    # In one turn: nothing is awaited until the node pauses reading.
    socket.data_received(bytes(stream[:LARGE_BYTES]))
    read_bytes = 0
    for _ in range(COUNT):
        reads = LargeReads(socket, connection, application.sockets.large_reads)
        space = reads.get_buffer(-1)
        part = stream[LARGE_BYTES + read_bytes :][: len(space)]
        space[: len(part)] = part
        reads.buffer_updated(len(part))
        read_bytes += len(part)
        if not socket.reading:
            break
    assert MIB <= read_bytes <= TURN_BYTES_MAX
    # Later turns read the rest, and every message is confirmed.
    client.raw(bytes(stream[LARGE_BYTES + read_bytes :]))
    await client.until_confirmed(COUNT)
