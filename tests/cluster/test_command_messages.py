"""Control commands to another node are answered, refused, or timed out; no caller waits for ever."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_TIMEOUT, ControlError, Request
from mirrormq.management.peer_client import PeerClient
from mirrormq.runtime.peer_rpc import PeerRpc
from tests.peers.ends import until


async def _respond(request: Request) -> dict[str, Any]:
    if request.verb == "sleep":
        await asyncio.sleep(3600)
    if request.verb == "refuse":
        return {"ok": False, "error": "no", "exit_code": EXIT_DATA, "bare": True}
    return {"ok": True, "result": [request.verb, request.arguments, request.options]}


class Pair:
    """Two nodes whose messages arrive when the test delivers them."""

    def __init__(self, **limits: int) -> None:
        self.held = False
        self.sent: list[CommandRequest | CommandReply] = []
        self.a = PeerRpc(lambda peer, message: self._carry(self.b, "a", message), _respond, **limits)
        self.b = PeerRpc(lambda peer, message: self._carry(self.a, "b", message), _respond, **limits)

    def _carry(self, to: PeerRpc, sender: str, message: CommandRequest | CommandReply) -> None:
        self.sent.append(message)
        if not self.held:
            asyncio.get_running_loop().call_soon(to.receive, sender, message)


async def test_an_answer_comes_back_with_names_that_are_not_text() -> None:
    pair = Pair()
    answer = await pair.a.ask("b", Request("verb", ["caf\udce9"], {"here": True}))
    assert answer == ["verb", ["caf\ufffd"], {"here": True}]


async def test_a_refusal_keeps_its_words_and_its_exit_code() -> None:
    with pytest.raises(ControlError) as refused:
        await Pair().a.ask("b", Request("refuse"))
    assert (refused.value.text, refused.value.exit_code, refused.value.released) == ("no", EXIT_DATA, True)


async def test_a_link_that_goes_down_ends_the_wait_for_that_node_only() -> None:
    pair = Pair()
    waiting = asyncio.create_task(pair.a.ask("b", Request("sleep")))
    other = asyncio.create_task(pair.a.ask("c", Request("sleep"), timeout_s=0.05))
    await asyncio.sleep(0)
    pair.a.down("b")
    with pytest.raises(ControlError, match="the link with node b went down"):
        await waiting
    with pytest.raises(ControlError, match=r"node c did not answer within 0\.05 seconds") as late:
        await other
    assert late.value.exit_code == EXIT_TIMEOUT


async def test_an_answer_from_another_node_or_too_late_is_ignored() -> None:
    pair = Pair()
    pair.held = True
    waiting = asyncio.create_task(pair.a.ask("b", Request("verb"), timeout_s=0.05))
    await asyncio.sleep(0)
    (asked,) = pair.sent
    pair.a.receive("c", CommandReply(asked.number, b'{"ok": true, "result": "forged"}'))
    with pytest.raises(ControlError, match="did not answer"):
        await waiting
    pair.a.receive("b", CommandReply(asked.number, b'{"ok": true, "result": "late"}'))


async def test_one_request_too_many_is_refused_on_either_side() -> None:
    pair = Pair(open_max=2, answering_max=1)
    first = asyncio.create_task(pair.a.ask("b", Request("sleep"), timeout_s=0.2))
    await asyncio.sleep(0)  # it is on its way, and arrives before the next
    with pytest.raises(ControlError, match="executes too many requests"):
        await pair.a.ask("b", Request("verb"))
    second = asyncio.create_task(pair.a.ask("b", Request("sleep"), timeout_s=0.2))
    await asyncio.sleep(0)
    with pytest.raises(ControlError, match="too many requests to other nodes"):
        await pair.a.ask("b", Request("verb"))
    await asyncio.gather(first, second, return_exceptions=True)


async def test_a_request_that_cannot_be_read_is_answered() -> None:
    pair = Pair()
    pair.b.receive("a", CommandRequest(7, b"nonsense"))
    await until(lambda: pair.sent)
    (answer,) = pair.sent
    assert isinstance(answer, CommandReply)
    assert b"cannot be read" in answer.reply


@pytest.mark.parametrize("end", ["refuse", "sleep"])
async def test_a_stop_that_crosses_an_answer_stops_and_leaves_nothing(end: str) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    pair = Pair()
    pair.held = True
    cluster = PeerClient(pair.a, "a")  # type: ignore[arg-type]
    is_request = asyncio.create_task(cluster.ask("b", "queues"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    number = pair.sent[0].number
    if end == "refuse":
        pair.a.receive("b", CommandReply(number, b'{"ok": false, "error": "no", "exit_code": 1}'))
    else:
        pair.a.down("b")
    is_request.cancel()
    await asyncio.wait({is_request})
    assert is_request.cancelled()
    del is_request
    gc.collect()
    assert complaints == []
