"""ASGI application of the API: find the resource, authenticate the user, run the handler, send its reply.

The order of the checks is RabbitMQ's: resource, method, login, authorisation, and only then the handler.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mirrormq.control.control_protocol import ControlError
from mirrormq.management import access, columns, origins, sample_ranges
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply, RawReply, StreamReply
from mirrormq.management.api_routes import ROUTES
from mirrormq.management.http_errors import (
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNSUPPORTED_MEDIA_TYPE,
    HttpRefusal,
    SilentRefusal,
    bad_request,
    encode,
    not_found,
    too_many_logins,
    undecided,
)
from mirrormq.management.json_encoding import query_of
from mirrormq.management.live_push import LivePush
from mirrormq.management.managed_node import (
    GONE,
    MANAGEMENT,
    METRICS,
    ROLE,
    ClientGone,
    ManagedNode,
    TooManyLogins,
)
from mirrormq.management.metrics import CONTENT_TYPE, PATHS, gather
from mirrormq.management.openapi import OpenApiGuide
from mirrormq.management.paged_listing import chunks
from mirrormq.management.peer_server import PeerServer
from mirrormq.management.route_table import FILES_ALLOW, ApiRoute, RouteTable
from mirrormq.management.static_pages import StaticPages
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.records import User

CONTENT_BYTES_MAX = 32 * 1024 * 1024
"""Largest body of a request: definitions of some hundred thousand objects. RabbitMQ 3.10 limits most
bodies to 20 MB."""

POLICY = {"content-security-policy": "script-src 'self'; object-src 'self'", "vary": "origin"}
JSON = {**POLICY, "content-type": "application/json", "x-content-type-options": "nosniff"}
NO_USER = User("")
API = "/api/"
METRICS_ROUTE = ApiRoute("metrics", access.monitor, {})


class HttpApplication:
    """HTTP API of one node."""

    def __init__(self, node: ManagedNode, statistics: Statistics, live: LivePush) -> None:
        self._node = node
        self._statistics = statistics
        self.answering = PeerServer(node, statistics, live)
        routes = [*ROUTES, *live.routes]
        self.routes = [*routes, *OpenApiGuide(routes).routes]
        self._router = RouteTable(self.routes)
        self._pages = StaticPages()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except (ClientGone, ClientDisconnect):
            return
        except Exception as error:
            refusal = self._refusal(request, error)
            headers = JSON if refusal.body else POLICY
            response = Response(refusal.body, refusal.status, {**headers, **refusal.headers})
        if scope["path"].startswith(API):
            allow = response.headers.get("allow", "")
            options = self._node.settings.cors
            response.headers.update(origins.cors_headers(options, request.method, request.headers, allow))
        with suppress(ClientDisconnect):
            await response(scope, receive, send)

    def _refusal(self, request: Request, error: Exception) -> HttpRefusal:
        if isinstance(error, TooManyLogins):
            return too_many_logins(str(error))
        return error if isinstance(error, HttpRefusal) else self._fault(request, error)

    def _fault(self, request: Request, error: Exception) -> HttpRefusal:
        """Log an unexpected error and return a reply: a bug costs one request, not the node."""
        text = "".join(traceback.format_exception(error))
        self._node.warn(f"unexpected error in {request.method} {request.url.path!r}:\n{text}")
        return SilentRefusal()

    async def _respond(self, request: Request) -> Response:
        raw_path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
        settings, role = self._node.settings, request.scope[ROLE]
        has_metrics = role == (MANAGEMENT if settings.metrics_listener is None else METRICS)
        if has_metrics and raw_path in PATHS and request.method in ("GET", "HEAD"):
            return await self._metrics(request, raw_path)
        if role == METRICS:
            raise not_found()
        if not raw_path.startswith(API):
            return self._pages.answer(request, raw_path)
        found = self._router.find(request.method, raw_path[len(API) :])
        if found is None:
            return Response(b"", headers={**POLICY, "allow": FILES_ALLOW})
        route, parts = found
        if request.method == "OPTIONS":
            return Response(b"", headers={**POLICY, "allow": route.allow})
        origins.check(request.method, request.url.scheme, request.headers, self._node.settings.cors)
        if route.refuses(request.method):
            refusal = SilentRefusal(METHOD_NOT_ALLOWED)
            refusal.headers = {"allow": route.allow}
            raise refusal
        method = "GET" if request.method == "HEAD" else request.method
        return await self._handled(request, route, parts, method)

    async def _metrics(self, request: Request, path: str) -> Response:
        if self._node.settings.metrics_authentication:
            user = await self._user(request)
            call = ApiRequest(self._node, self._statistics, user, "GET", {}, {}, dict(request.headers), b"")
            _admit(call, METRICS_ROUTE)
        text = gather(self._node, path, request.url.query)
        return StreamingResponse(text, headers={**POLICY, "content-type": CONTENT_TYPE})

    async def _handled(
        self, request: Request, route: ApiRoute, parts: dict[str, str], method: str
    ) -> Response:
        user = NO_USER if route.is_open else await self._user(request)
        query = query_of(request.url.query, strict=method == "GET")
        call = ApiRequest(
            self._node, self._statistics, user, method, parts, query, dict(request.headers), b""
        )
        _admit(call, route)
        call.ranges, call.host, call.gone = sample_ranges.read(query), _host(request), request.scope[GONE]
        call.content = await _content(request)
        try:
            answer = route.handlers[method](call)
            if inspect.isawaitable(answer):
                answer = await answer
        except ControlError as error:
            raise bad_request(error.text) from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise bad_request(str(error)) from None
        finally:
            # Also after an error: the handler may have changed the broker before it failed.
            if method != "GET":
                self._node.changed()
        if method != "GET":
            await self._agreed()
        return await _response(answer, query)

    async def _agreed(self) -> None:
        try:
            await self._node.settled()
        except TimeoutError:
            raise undecided() from None

    async def _user(self, request: Request) -> User:
        name, password = access.credentials(request.headers.get("authorization"))
        user = await self._node.authenticate(name, password, _host(request), request.scope[GONE])
        if user is None:
            raise access.login_failed()
        return user


def _admit(call: ApiRequest, route: ApiRoute) -> None:
    """Check the user's authorisation and the content type. As in RabbitMQ, a missing object is reported
    last."""
    refused: HttpRefusal | None = None
    try:
        route.access(call)
    except HttpRefusal as refusal:
        if refusal.status != NOT_FOUND:
            call.node.count_refusal()
            raise
        refused = refusal
    if (
        call.method in ("PUT", "POST")
        and not route.is_open
        and not route.takes(call.headers.get("content-type"))
    ):
        raise SilentRefusal(UNSUPPORTED_MEDIA_TYPE)
    if refused is not None:
        raise refused


def _host(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def _content(request: Request) -> bytes:
    collected = bytearray()
    async for piece in request.stream():
        collected += piece
        if len(collected) > CONTENT_BYTES_MAX:
            raise bad_request("the request body is larger than 32 MiB")
    return bytes(collected)


async def _response(answer: Any, query: dict[str, str]) -> Response:
    if isinstance(answer, EmptyReply):
        return Response(b"", answer.status, {**POLICY, **answer.headers})
    if isinstance(answer, StreamReply):
        return StreamingResponse(answer.pieces, 200, {**POLICY, **answer.headers})
    headers = {**JSON, "cache-control": "no-cache", "vary": "accept, accept-encoding, origin"}
    if isinstance(answer, RawReply):
        return Response(answer.body, answer.status, {**headers, **answer.headers})
    if not isinstance(answer, ListReply):
        return Response(encode(columns.of_one(answer, query)), 200, headers)
    pieces = chunks(answer, query)
    # An error must be raised before the status line is sent.
    first = await anext(pieces)
    return StreamingResponse(_joined(first, pieces), 200, headers)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
