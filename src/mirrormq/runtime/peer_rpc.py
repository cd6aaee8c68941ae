"""Request and reply between nodes over peer links.

A request is one of the control socket. It fails when the link to the other node goes down, when no reply
arrives in time, or with the other node's error. The caller gets a ControlError in each case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.control.chunked_rows import encoded
from mirrormq.control.control_protocol import (
    EXIT_TIMEOUT,
    ControlError,
    Request,
    encode_document,
    read_request,
)
from mirrormq.peers.requests import PendingRequests

ANSWER_TIMEOUT_S = 30.0
"""Default reply timeout: half of the time that an operator's tool waits, so that the tool learns which
node did not reply."""

OPEN_MAX = 1024
"""Maximum open requests of this node; a command or an HTTP page waits for each."""

ANSWERING_MAX = 256
"""Maximum requests of other nodes in progress. The node refuses further ones; the caller may repeat them."""

Respond = Callable[[Request], Awaitable[dict[str, Any]]]


class PeerRpc:
    """Both ends of requests between nodes. `send` puts a message on the link with a node."""

    def __init__(
        self,
        send: Callable[[str, CommandRequest | CommandReply], None],
        respond: Respond,
        open_max: int = OPEN_MAX,
        answering_max: int = ANSWERING_MAX,
    ) -> None:
        self._send = send
        self._respond = respond
        self._open_max = open_max
        self._answering_max = answering_max
        self._open = PendingRequests[tuple[str, asyncio.Future[bytes]]]()
        self._executing: set[asyncio.Task[None]] = set()

    async def ask(self, peer: str, request: Request, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Execute a command on another node and return its result."""
        if len(self._open) >= self._open_max:
            raise ControlError("too many requests to other nodes wait for a reply: try again later")
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        number = self._open.add((peer, future))
        try:
            self._send(peer, CommandRequest(number, encode_document(msgspec.to_builtins(request))))
            async with asyncio.timeout(timeout_s):
                reply = msgspec.json.decode(await future)
        except TimeoutError:
            raise ControlError(
                f"node {peer} did not answer within {timeout_s:g} seconds", EXIT_TIMEOUT
            ) from None
        finally:
            self._open.take(number)
            if future.done() and not future.cancelled():
                future.exception()  # mark as retrieved, also if the caller was cancelled at the same moment
        if not reply["ok"]:
            raise ControlError.of_reply(reply)
        return reply["result"]

    def receive(self, peer: str, message: CommandRequest | CommandReply) -> None:
        """Process a request or a reply from a peer."""
        if isinstance(message, CommandReply):
            pending = self._open.get(message.number)
            if pending is not None and pending[0] == peer and not pending[1].done():
                pending[1].set_result(message.reply)
        elif len(self._executing) >= self._answering_max:
            self._reply(
                peer, message.number, _failure("this node executes too many requests: try again later")
            )
        else:
            task = asyncio.get_running_loop().create_task(self._execute(peer, message))
            self._executing.add(task)
            task.add_done_callback(self._executing.discard)

    def down(self, peer: str) -> None:
        """Fail the open requests to a peer whose link went down."""
        for _, future in self._open.take_if(lambda pending: pending[0] == peer):
            if not future.done():
                future.set_exception(ControlError(f"the link with node {peer} went down"))

    async def _execute(self, peer: str, message: CommandRequest) -> None:
        try:
            reply = await self._respond(read_request(message.request))
        except ControlError as error:
            reply = _failure(error.text, error.exit_code)
        self._send(peer, CommandReply(message.number, await encoded(reply)))

    def _reply(self, peer: str, number: int, reply: dict[str, Any]) -> None:
        self._send(peer, CommandReply(number, encode_document(reply)))


def _failure(text: str, exit_code: int = EXIT_TIMEOUT) -> dict[str, Any]:
    return {"ok": False, "error": text, "exit_code": exit_code}
