"""Client of `mirrormqctl --uri`: one request over HTTP to a node's management port.

The login must be an administrator's. If the request names another node, the node that answers forwards the
request to it.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from mirrormq.control.control_client import NodeUnreachable
from mirrormq.control.control_protocol import (
    EXIT_DATA,
    EXIT_TIMEOUT,
    EXIT_USAGE,
    ControlError,
    Request,
    encode_document,
)

PATH = "/api/mirrormq/control"
PORTS = {"http": 15672, "https": 15671}

UNAUTHORISED = 401
NOT_FOUND = 404


def parsed(uri: str) -> SplitResult:
    """Parse the address; raise ControlError, without the password in its text, if it is invalid."""
    try:
        parts = urlsplit(uri)
        usable = parts.scheme in PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ControlError(
            "The address given with --uri is invalid: write http://USER:PASSWORD@HOST:PORT.", EXIT_USAGE
        )
    return parts


def host_and_port(uri: str) -> str:
    """Return host and port, for messages."""
    parts = parsed(uri)
    return f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}"


def call(uri: str, node: str, request: Request, timeout_s: float | None) -> Any:
    """Return the result of a command; raise ControlError with the node's error text."""
    parts = parsed(uri)
    document = {
        "node": node, "verb": request.verb, "arguments": request.arguments, "options": request.options,
    }  # fmt: skip
    connection = _connection(parts, timeout_s)
    try:
        connection.request("POST", parts.path.rstrip("/") + PATH, encode_document(document), _headers(parts))
        answer = connection.getresponse()
        status, body = answer.status, answer.read()
    except TimeoutError:
        text = f"operation {request.verb} at {host_and_port(uri)} timed out. Timeout value used: {timeout_s}"
        raise ControlError(text, EXIT_TIMEOUT) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NodeUnreachable(
            f"unable to perform an operation at {host_and_port(uri)}: {reason}. "
            "Start the node, or name the host and port of its HTTP API with --uri."
        ) from None
    finally:
        connection.close()
    reply = _reply(status, body, host_and_port(uri))
    if not reply["ok"]:
        raise ControlError.of_reply(reply)
    return reply["result"]


def _connection(parts: SplitResult, timeout_s: float | None) -> http.client.HTTPConnection:
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, port, timeout=timeout_s, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _headers(parts: SplitResult) -> dict[str, str]:
    login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
    encoded = base64.b64encode(login.encode()).decode()
    return {"Authorization": f"Basic {encoded}", "Content-Type": "application/json"}


def _reply(status: int, body: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(body) if body else {}
    except ValueError:
        found = {}
    if isinstance(found, dict) and "ok" in found:
        return found
    if status == UNAUTHORISED:
        reason = found.get("reason", "Login failed") if isinstance(found, dict) else "Login failed"
        raise ControlError(f"{where} refused the login: {reason}. It must be an administrator's.", EXIT_DATA)
    if status == NOT_FOUND:
        raise ControlError(
            f"The server at {where} is not a MirrorMQ node. "
            "Name the host and port of a node's HTTP API with --uri."
        )
    raise ControlError(f"{where} sent an invalid reply (status {status}).")
