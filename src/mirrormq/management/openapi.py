"""Descriptions of the API, generated from the routes: an OpenAPI document for tools and an HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from mirrormq import __version__
from mirrormq.management import access
from mirrormq.management.access import Check
from mirrormq.management.api_request import ApiRequest, ListReply, RawReply
from mirrormq.management.descriptions import BODIES, HERE, SENTENCES
from mirrormq.management.http_errors import encode
from mirrormq.management.resources.session import FORM
from mirrormq.management.route_table import ApiRoute, Handler
from mirrormq.management.static_pages import HEADERS as PAGE_HEADERS

METHODS = ("GET", "PUT", "POST", "DELETE")
TAKES_A_FORM = (("POST", "login"),)
VARIABLE = re.compile(r"{(\w+)}")
LIST_PARAMETERS = {
    "page": "Page number, from 1; without it the reply is the whole list.",
    "page_size": "Rows per page: 100 by default, 500 at most.",
    "name": "Filter: part of the name; only with `page`.",
    "use_regex": "`true`: `name` is a regular expression.",
    "sort": "Column to sort by; a dot selects a nested one: `message_stats.publish`.",
    "sort_reverse": "`true`: largest values first.",
    "columns": "Comma-separated columns to show.",
}
RANGE_PARAMETERS = {
    "msg_rates_age": "Seconds of rate history.",
    "msg_rates_incr": "Seconds between two samples of rates.",
    "lengths_age": "Seconds of queue length history.",
    "lengths_incr": "Seconds between two samples of lengths.",
}
WITH_HISTORY = ("channels", "connections", "exchanges", "nodes", "overview", "queues", "vhosts")


class OpenApiGuide:
    """OpenAPI document and HTML page, each built at its first request."""

    def __init__(self, routes: list[ApiRoute]) -> None:
        self._routes = routes
        self._document: bytes | None = None
        self._page: bytes | None = None
        check: Check = access.no_login_required  # The API's description is public.
        self.routes = [
            ApiRoute("openapi.json", check, {"GET": self._show_document}, is_open=True),
            ApiRoute(HERE, check, {"GET": self._show_page}, is_open=True),
            ApiRoute("index.html", check, {"GET": self._show_page}, is_open=True),
        ]

    def _operations(self) -> Iterator[tuple[ApiRoute, str, Handler]]:
        for route in sorted([*self._routes, *self.routes], key=lambda route: route.path):
            for method in METHODS:
                if method in route.handlers:
                    yield route, method, route.handlers[method]

    def _show_document(self, call: ApiRequest) -> RawReply:
        if self._document is None:
            self._document = encode(self.document())
        return RawReply(self._document)

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI 3.0 document."""
        paths: dict[str, dict[str, Any]] = {}
        for route, method, handler in self._operations():
            paths.setdefault(f"/{route.path}", {})[method.lower()] = _operation(route, method, handler)
        return {
            "openapi": "3.0.3",
            "info": {
                "title": "MirrorMQ HTTP API",
                "version": __version__,
                "description": "RabbitMQ 3.10's management API, and MirrorMQ's extensions under /mirrormq/.",
            },
            "servers": [{"url": "/api"}],
            "security": [{"login": []}],
            "paths": paths,
            "components": {
                "securitySchemes": {"login": {"type": "http", "scheme": "basic"}},
                "schemas": {
                    "Refusal": {
                        "type": "object",
                        "properties": {"error": {"type": "string"}, "reason": {}},
                    }
                },
            },
        }

    def _show_page(self, call: ApiRequest) -> RawReply:
        if self._page is None:
            self._page = self._made_page().encode()
        return RawReply(self._page, headers={**PAGE_HEADERS, "content-type": "text/html; charset=utf-8"})

    def _made_page(self) -> str:
        rows = "".join(
            f"<tr><td>{method}</td><td><code>/api/{escape(route.path)}</code></td>"
            f"<td>{escape(SENTENCES[method, route.path])}</td></tr>\n"
            for route, method, _ in self._operations()
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>MirrorMQ HTTP API</title>'
            "</head><body>\n<h1>The HTTP API</h1>\n"
            "<p>RabbitMQ 3.10's management API; MirrorMQ's extensions are under <code>/api/mirrormq/</code>. "
            "Log in with HTTP basic authentication. Names in paths are percent-encoded: the virtual host "
            '<code>/</code> is <code>%2F</code>. For tools: <a href="openapi.json">openapi.json</a>.</p>\n'
            "<table>\n<thead><tr><th>Method</th><th>Path</th><th>Description</th></tr></thead>\n"
            f"<tbody>\n{rows}</tbody>\n</table>\n</body></html>\n"
        )


def _operation(route: ApiRoute, method: str, handler: Handler) -> dict[str, Any]:
    is_listing = ListReply.__name__ in str(getattr(handler, "__annotations__", {}).get("return", ""))
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in VARIABLE.findall(route.path)
    ]
    query_parameters = {**LIST_PARAMETERS} if is_listing else {}
    if method == "GET" and route.path.split("/")[0] in WITH_HISTORY:
        query_parameters |= RANGE_PARAMETERS
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in query_parameters.items()
    ]
    shown: dict[str, Any] = {
        "summary": SENTENCES[method, route.path],
        "operationId": "_".join([method.lower(), *re.findall(r"\w+", route.path)]),
        "tags": [route.path.split("/")[0] or "api"],
        "parameters": parameters,
        "responses": _responses(method),
    }
    if route.is_open:
        shown["security"] = []
    if method in ("PUT", "POST"):
        names = BODIES.get((method, route.path), [])
        schema = {"type": "object", "properties": {name: {} for name in names}}
        kind = FORM if (method, route.path) in TAKES_A_FORM else "application/json"
        shown["requestBody"] = {"content": {kind: {"schema": schema}}}
    return shown


def _responses(method: str) -> dict[str, Any]:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    done = {
        "GET": {"200": {"description": "The requested object or list."}},
        "PUT": {"201": {"description": "Created."}, "204": {"description": "Updated or unchanged."}},
        "POST": {
            "200": {"description": "The result."},
            "201": {"description": "Created."},
            "204": {"description": "Done."},
        },
        "DELETE": {"204": {"description": "Deleted."}},
    }[method]
    return {
        **done,
        "400": {"description": "Invalid request.", "content": refusal},
        "401": {"description": "Login missing or wrong, or permissions insufficient.", "content": refusal},
        "404": {"description": "Object not found.", "content": refusal},
    }
