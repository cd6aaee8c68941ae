"""Resource behind `mirrormqctl --uri`: control commands over HTTP, for administrators.

Commands that change the process or files of the node's host need access to that host
(`control/preconditions.py`).
"""

from __future__ import annotations

from typing import Any

from mirrormq.control.control_protocol import EXIT_USAGE, ControlError, Request, encode_document
from mirrormq.control.preconditions import INTERNAL_COMMANDS, LOCAL_ONLY, local_only_error
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, RawReply
from mirrormq.management.http_errors import bad_request
from mirrormq.management.route_table import ApiRoute


async def carry_out(call: ApiRequest) -> RawReply:
    """Run one command and reply as the control socket would."""
    body = call.body("verb")
    request, node = _request(body), body.get("node") or call.me
    try:
        if request.verb in LOCAL_ONLY:
            raise ControlError(local_only_error(request.verb), EXIT_USAGE)
        if request.verb in INTERNAL_COMMANDS:
            raise ControlError(f"This node does not know the command '{request.verb}'.", EXIT_USAGE)
        return _reply({"ok": True, "result": await _result(call, node, request)})
    except ControlError as error:
        return _reply(error.reply())


def _request(body: dict[str, Any]) -> Request:
    command, words, options = body["verb"], body.get("arguments", []), body.get("options", {})
    fits = isinstance(command, str) and isinstance(words, list) and isinstance(options, dict)
    if not fits or not all(isinstance(word, str) for word in words):
        raise bad_request("verb must be a string, arguments a list of strings, options an object")
    return Request(command, words, options)


async def _result(call: ApiRequest, node: str, request: Request) -> Any:
    if node != call.me and node not in call.peer_client.peers:
        raise ControlError(f"{node} is not a running node of the cluster of {call.me}.")
    return await call.node.carry_out(request, node)


def _reply(reply: dict[str, Any]) -> RawReply:
    return RawReply(encode_document(reply))


ROUTES = [ApiRoute("mirrormq/control", access.administrator, {"POST": carry_out})]
