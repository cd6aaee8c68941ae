"""Route table of the API: from a path to its resource. Parts are decoded one by one, so a name may contain
a slash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from mirrormq.management import json_encoding
from mirrormq.management.access import Check
from mirrormq.management.api_request import ApiRequest
from mirrormq.management.http_errors import (
    BAD_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_IMPLEMENTED,
    SilentRefusal,
    not_found,
)

KNOWN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
JSON = "application/json"
FILES_ALLOW = "HEAD, GET, OPTIONS"
"""Methods of a path without a resource; RabbitMQ serves files there."""

Handler = Callable[[ApiRequest], object]
"""Function that returns a reply, or an awaitable of one."""


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """API resource: its path under /api, its access check and its handlers."""

    path: str
    access: Check
    handlers: Mapping[str, Handler]
    is_open: bool = False
    """Whether the resource needs no login."""
    media: tuple[str, ...] = ()
    """Accepted content types; empty if all are accepted."""
    has_head: bool = True
    """Whether HEAD is accepted besides GET."""

    @property
    def allow(self) -> str:
        order = ("GET", "PUT", "POST", "DELETE")
        given = [name for name in order if name in self.handlers]
        return ", ".join((["HEAD"] if "GET" in given and self.has_head else []) + given + ["OPTIONS"])

    def refuses(self, method: str) -> bool:
        return ("GET" if method == "HEAD" and self.has_head else method) not in self.handlers

    def takes(self, content_type: str | None) -> bool:
        """Report whether a body of this content type is accepted."""
        kind = None if content_type is None else content_type.partition(";")[0].strip().lower()
        if kind is not None and not all(kind.partition("/")[::2]):
            return False
        return not self.media or kind in self.media


class RouteTable:
    """Routes by number of parts; fixed parts take precedence over variable ones."""

    def __init__(self, routes: list[ApiRoute]) -> None:
        self._by_length: dict[int, list[tuple[list[str], ApiRoute]]] = {}
        # Routes with fewer variables come first, so that fixed parts take precedence.
        for route in sorted(routes, key=lambda route: route.path.count("{")):
            parts = route.path.split("/")
            self._by_length.setdefault(len(parts), []).append((parts, route))

    def find(self, method: str, raw_path: str) -> tuple[ApiRoute, dict[str, str]] | None:
        """Return the route of an encoded path under /api and its variable parts; None for OPTIONS on an
        unknown path."""
        if method not in KNOWN_METHODS:
            raise SilentRefusal(NOT_IMPLEMENTED)
        given = _parts(raw_path)
        for parts, route in self._by_length.get(len(given), ()):
            found: dict[str, str] = {}
            for part, value in zip(parts, given, strict=True):
                if part.startswith("{"):
                    found[part[1:-1]] = value
                elif part != value:
                    break
            else:
                return route, found
        _no_file(method, given)
        return None


def _parts(raw_path: str) -> list[str]:
    if not json_encoding.is_well_escaped(raw_path):
        raise SilentRefusal(BAD_REQUEST)
    return [unquote(part, errors="surrogateescape") for part in raw_path.removesuffix("/").split("/")]


def _no_file(method: str, parts: list[str]) -> None:
    if method not in ("GET", "HEAD", "OPTIONS"):
        refusal = SilentRefusal(METHOD_NOT_ALLOWED)
        refusal.headers = {"allow": FILES_ALLOW}
        raise refusal
    if any("/" in part for part in parts):
        raise SilentRefusal(BAD_REQUEST)
    if method != "OPTIONS":
        raise not_found()
