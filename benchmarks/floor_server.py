"""Server of canned frames: the least that a lone message can cost on this machine.

    python -m benchmarks.floor_server PORT DIRECTORY

It is no broker. It answers the handshake and declarations, and takes every read of a publisher for one
publish: it confirms it and delivers a canned message to the next consumer. It answers basic.get with the
canned message. Each read is written to a file once, without a sync. Nothing is parsed after the first publish
and nothing is kept.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import cast

import uvloop

from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, encode_properties

_METHOD = 1
_HEAD_BYTES = 8
_PUBLISH = methods.BASIC_PUBLISH.to_bytes(4, "big")
_ACK = methods.BASIC_ACK.to_bytes(4, "big")
_GET = methods.BASIC_GET.to_bytes(4, "big")
_CONTENT = build_frames(1, encode_properties(BasicProperties(delivery_mode=2)), b"x" * 100, 0)

_ANSWERS: dict[type, Callable[[], bytes]] = {
    methods.ConnectionStartOk: lambda: methods.encode_connection_tune(2047, 131_072, 0),
    methods.ConnectionOpen: methods.encode_connection_open_ok,
    methods.ConnectionClose: methods.encode_connection_close_ok,
    methods.ChannelOpen: methods.encode_channel_open_ok,
    methods.ChannelClose: methods.encode_channel_close_ok,
    methods.ConfirmSelect: methods.encode_confirm_select_ok,
    methods.BasicQos: methods.encode_basic_qos_ok,
    methods.BasicConsume: lambda: methods.encode_basic_consume_ok("floor"),
    methods.ExchangeDeclare: methods.encode_exchange_declare_ok,
}


class FloorServer:
    """Consumers in turn, and the file."""

    def __init__(self, directory: str) -> None:
        self.consumers: list[FloorConnection] = []
        self.file = os.open(os.path.join(directory, "floor"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def deliver(self) -> None:
        """Send the canned message to the next consumer."""
        if self.consumers:
            consumer = self.consumers.pop(0)
            self.consumers.append(consumer)
            consumer.deliver()


class FloorConnection(asyncio.Protocol):
    """Connection that becomes a publisher or a consumer."""

    def __init__(self, server: FloorServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._handshaken = False
        self._tag = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._server.consumers:
            self._server.consumers.remove(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        method = data[7:11]
        if method == _PUBLISH:
            os.write(self._server.file, data)
            self._tag += 1
            self._transport.write(method_frame(1, methods.encode_basic_ack(self._tag, False)))
            self._server.deliver()
        elif method in (_ACK, _GET):
            os.write(self._server.file, data)
            if _GET in data:
                self._reply_to_get()
        elif not self._handshaken:
            self._handshaken = True
            start = methods.encode_connection_start(0, 9, table_of({}), b"PLAIN", b"en_US")
            self._transport.write(method_frame(0, start))
        else:
            self._answer(data)

    def deliver(self) -> None:
        """Send the canned message."""
        assert self._transport is not None
        self._tag += 1
        deliver = methods.encode_basic_deliver("floor", self._tag, False, "", "bench")
        self._transport.write(method_frame(1, deliver) + _CONTENT)

    def _reply_to_get(self) -> None:
        assert self._transport is not None
        self._tag += 1
        reply = methods.encode_basic_get_ok(self._tag, False, "", "bench", 0)
        self._transport.write(method_frame(1, reply) + _CONTENT)

    def _answer(self, data: bytes) -> None:
        assert self._transport is not None
        at = 0
        while len(data) - at >= _HEAD_BYTES:
            channel, size = (
                int.from_bytes(data[at + 1 : at + 3], "big"),
                int.from_bytes(data[at + 3 : at + 7], "big"),
            )
            if data[at] == _METHOD:
                method = methods.decode_method(data[at + 7 : at + 7 + size])
                answer = _ANSWERS.get(type(method))
                if answer is not None:
                    self._transport.write(method_frame(channel, answer()))
                if isinstance(method, methods.BasicConsume):
                    self._server.consumers.append(self)
            at += size + _HEAD_BYTES


async def serve(port: int, directory: str) -> None:
    """Serve until SIGTERM."""
    loop, server = asyncio.get_running_loop(), FloorServer(directory)
    stopped = loop.create_future()
    loop.add_signal_handler(signal.SIGTERM, stopped.set_result, None)
    await loop.create_server(lambda: FloorConnection(server), "127.0.0.1", port)
    await stopped


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
