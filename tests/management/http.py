"""Minimal client of the HTTP API: one request, one reply."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

TIMEOUT_S = 60.0


class Answer(NamedTuple):
    """Reply to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def shown(self) -> Any:
        """Body as JSON if it is JSON, else as text."""
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode(errors="replace")


class Client:
    """User of one node's API. Every request uses a new connection."""

    def __init__(self, port: int, user: str = "guest", password: str = "guest") -> None:
        self._port = port
        self._credentials = base64.b64encode(f"{user}:{password}".encode()).decode()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
        *,
        raw: bytes | None = None,
    ) -> Answer:
        """Send a request. `path` is under /api unless it starts with two slashes; a header that is None is
        not sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        given = {"Authorization": f"Basic {self._credentials}", "Content-Type": "application/json"}
        sent = {name: value for name, value in {**given, **(headers or {})}.items() if value is not None}
        address = path[1:] if path.startswith("//") else f"/api/{path}"
        try:
            connection.request(method, address, data, sent)
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, fields, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Return the JSON of a GET that must succeed."""
        answer = self.request("GET", path)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer.json

    def put(self, path: str, body: Any) -> Answer:
        return self.request("PUT", path, body)

    def post(self, path: str, body: Any) -> Answer:
        return self.request("POST", path, body)

    def delete(self, path: str, body: Any = None) -> Answer:
        return self.request("DELETE", path, body)


def part(name: str) -> str:
    """Encode a name as one part of a path."""
    return quote(name, safe="")
