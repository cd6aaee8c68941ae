"""From a path to its resource. Parts are decoded one by one, so a name may hold a slash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from mirrormq.management.access import Check
from mirrormq.management.call import Call

Handler = Callable[[Call], object]
"""Gives an answer, or something to await that does."""


@dataclass(frozen=True, slots=True)
class Route:
    """One resource: its path under /api, who may use it, and what it does."""

    path: str
    access: Check
    handlers: Mapping[str, Handler]
    is_open: bool = False
    """Answers without a login."""

    @property
    def allow(self) -> str:
        order = ("GET", "PUT", "POST", "DELETE")
        given = [name for name in order if name in self.handlers]
        return ", ".join((["HEAD"] if "GET" in given else []) + given + ["OPTIONS"])


class Router:
    """All routes, by the number of their parts; fixed parts win over variable ones."""

    def __init__(self, routes: list[Route]) -> None:
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}
        for route in sorted(routes, key=lambda route: route.path.count("{")):
            parts = route.path.split("/")
            self._by_length.setdefault(len(parts), []).append((parts, route))

    def find(self, raw_path: str) -> tuple[Route, dict[str, str]] | None:
        """The route of a path under /api, still encoded, and its variable parts."""
        given = raw_path.strip("/").split("/")
        for parts, route in self._by_length.get(len(given), ()):
            found: dict[str, str] = {}
            for part, value in zip(parts, given, strict=True):
                if part.startswith("{"):
                    found[part[1:-1]] = unquote(value, errors="surrogateescape")
                elif part != value:
                    break
            else:
                return route, found
        return None
