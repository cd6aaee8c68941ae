"""Asyncio server of the control socket: accepts, reads one request, replies, closes.

The socket file has mode 0600 from its creation, in a directory with mode 0700. This is the only protection
of the socket. A socket file left by a killed node is replaced. A socket that answers belongs to another
node of the same name; this node then runs without a control socket and logs that.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from mirrormq import limits
from mirrormq.control.chunked_rows import framed
from mirrormq.control.commands import users
from mirrormq.control.control_client import answers
from mirrormq.control.control_protocol import (
    EXIT_SOFTWARE,
    LENGTH_BYTES,
    ControlError,
    read_request,
    socket_path,
)
from mirrormq.control.dispatch import answer
from mirrormq.control.node_interface import NodeShell
from mirrormq.errors import DamageError, start_error
from mirrormq.storage.journal_errors import JournalFailed


class ControlServer:
    """Server of one node's control socket."""

    def __init__(self, node: NodeShell, after_request: Callable[[], None] = lambda: None) -> None:
        self._node = node
        self._after_request = after_request
        """Called after each command: the runtime ends a turn then, because a command can wake queues."""
        self._path = socket_path(node.settings.runtime_directory, node.settings.name)
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> str | None:
        """Open the socket. Return a sentence for the log if another node uses it."""
        try:
            _private_directory(self._path.parent)
        except OSError as error:
            raise start_error(
                f"Cannot use {self._path.parent} for the control socket: {error.strerror}. "
                "Set MIRRORMQ_RUNTIME_DIR to a directory of your own.",
                error,
            ) from error
        if self._path.exists():
            name = self._node.settings.name
            in_use = await asyncio.get_running_loop().run_in_executor(None, answers, self._path.parent, name)
            if in_use:
                return (
                    f"Another node named {name} answers at {self._path}: mirrormqctl reaches that one, not "
                    "this. Set MIRRORMQ_RUNTIME_DIR to another directory for one of them."
                )
            self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, sock=_bound(self._path))
        return None

    async def stop(self) -> None:
        """Close the socket after the pending replies have been sent."""
        if self._server is None:
            return
        self._server.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        current = asyncio.current_task()
        waiting = [task for task in self._running if task is not current]
        if waiting:
            await asyncio.wait(waiting, timeout=limits.CONTROL_CLOSE_TIMEOUT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            request = await asyncio.wait_for(_receive(reader), limits.CONTROL_READ_TIMEOUT_S)
            writer.write(await framed(await self._answer(request)))
            await asyncio.wait_for(writer.drain(), limits.CONTROL_READ_TIMEOUT_S)
        except (OSError, EOFError, TimeoutError):
            return
        finally:
            self._running.discard(task)
            writer.close()

    async def _answer(self, document: bytes) -> dict[str, object]:
        try:
            request = read_request(document)
        except ControlError as error:
            return {"ok": False, "error": error.text, "exit_code": error.exit_code}
        loop = asyncio.get_running_loop()
        request = await loop.run_in_executor(None, users.prepare, self._node, request)
        try:
            return await answer(self._node, request)
        except (JournalFailed, DamageError) as failure:
            return {"ok": False, "error": str(failure), "exit_code": EXIT_SOFTWARE}
        finally:
            self._after_request()


async def _receive(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if size > limits.CONTROL_REQUEST_BYTES_MAX:
        raise EOFError
    return await reader.readexactly(size)


def _private_directory(path: Path) -> None:
    """Create the directory, or check that no other user can put sockets into an existing one."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "every user may write to it")


def _bound(path: Path) -> socket.socket:
    """Return a listening socket at `path` that only its owner can open."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A chmod after bind would leave a moment in which another user can connect.
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return listener
