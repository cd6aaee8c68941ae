"""TCP relay that can hold back one direction, to put two handshakes into any order."""

from __future__ import annotations

import asyncio
import contextlib


class Gate:
    """Relay of one port; `held` directions ("in" to the node, "out" of it) wait, after `passes` reads."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self.waiting = 0
        """Number of reads that are held back."""
        self._passes = {"in": 1 << 30, "out": 1 << 30}
        self._open = {"in": asyncio.Event(), "out": asyncio.Event()}
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    def hold(self, direction: str, passes: int = 0) -> None:
        """Let `passes` reads of this direction through and hold the rest until `release`."""
        self._passes[direction] = passes

    def release(self, direction: str) -> None:
        self._open[direction].set()

    async def __aenter__(self) -> Gate:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._pump("in", reader, back)))
        self._tasks.append(loop.create_task(self._pump("out", there, writer)))

    async def _pump(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self._passes[direction] > 0:
                    self._passes[direction] -= 1
                else:
                    self.waiting += 1
                    await self._open[direction].wait()
                writer.write(data)
        writer.close()
