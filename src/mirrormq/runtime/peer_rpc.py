"""Questions to other nodes over the links, and their answers.

A question is a request of the control socket. It fails when the link to the other node goes down, when no
answer comes in time, or with the other node's own words; whoever asked gets a ControlError in each case.
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

ANSWER_TIMEOUT_S = 30.0
"""Half of what an operator's tool waits, so that it hears which node did not answer."""

OPEN_MAX = 1024
"""Questions of this node without an answer; each is a verb or a page that somebody waits for."""

ANSWERING_MAX = 256
"""Questions of others that are being answered. Past it they are told to ask again."""

Respond = Callable[[Request], Awaitable[dict[str, Any]]]


class PeerRpc:
    """Both ends: asks and answers. `send` gives a message to the link with a node."""

    def __init__(self, send: Callable[[str, CommandRequest | CommandReply], None], respond: Respond) -> None:
        self._send = send
        self._respond = respond
        self._number = 0
        self._open: dict[int, tuple[str, asyncio.Future[bytes]]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def ask(self, peer: str, request: Request, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The result of a verb on another node."""
        if len(self._open) >= OPEN_MAX:
            raise ControlError("too many questions to other nodes are waiting for an answer")
        self._number += 1
        number, future = self._number, asyncio.get_running_loop().create_future()
        self._open[number] = (peer, future)
        try:
            self._send(peer, CommandRequest(number, encode_document(msgspec.to_builtins(request))))
            async with asyncio.timeout(timeout_s):
                reply = msgspec.json.decode(await future)
        except TimeoutError:
            raise ControlError(
                f"node {peer} did not answer within {timeout_s:g} seconds", EXIT_TIMEOUT
            ) from None
        finally:
            del self._open[number]
            if future.done() and not future.cancelled():
                future.exception()  # known, also if whoever asked was told to stop in the same moment
        if not reply["ok"]:
            raise ControlError.of_reply(reply)
        return reply["result"]

    def receive(self, peer: str, message: CommandRequest | CommandReply) -> None:
        """A question or an answer has come."""
        if isinstance(message, CommandReply):
            asked, future = self._open.get(message.number, ("", None))
            if future is not None and asked == peer and not future.done():
                future.set_result(message.reply)
        elif len(self._answering) >= ANSWERING_MAX:
            self._reply(peer, message.number, _failure("this node has too many questions to answer"))
        else:
            task = asyncio.get_running_loop().create_task(self._answer(peer, message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    def down(self, peer: str) -> None:
        """The link with a node is gone: it will not answer."""
        for asked, future in list(self._open.values()):
            if asked == peer and not future.done():
                future.set_exception(ControlError(f"the link with node {peer} went down"))

    async def _answer(self, peer: str, message: CommandRequest) -> None:
        try:
            reply = await self._respond(read_request(message.request))
        except ControlError as error:
            reply = _failure(error.text, error.exit_code)
        self._send(peer, CommandReply(message.number, await encoded(reply)))

    def _reply(self, peer: str, number: int, reply: dict[str, Any]) -> None:
        self._send(peer, CommandReply(number, encode_document(reply)))


def _failure(text: str, exit_code: int = EXIT_TIMEOUT) -> dict[str, Any]:
    return {"ok": False, "error": text, "exit_code": exit_code}
