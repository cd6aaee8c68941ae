"""HTTP API of a RabbitMQ or MirrorMQ cluster, through the first node that replies."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any
from urllib.parse import quote, unquote, urlsplit

PORTS = {"http": 15672, "https": 15671}
TIMEOUT_S = 60.0
"""Longest wait for a reply: an import of thousands of queues."""

REPLY_BYTES_MAX = 256 * 1024 * 1024
"""Longest reply: the definitions of some hundred thousand queues."""

NOT_FOUND = 404
UNAUTHORISED = 401
FIRST_ERROR = 400
NOT_NOW = (502, 503, 504)
"""Statuses of a node that starts or stops, or of a proxy in front of it: another node may reply."""


class MigrationError(Exception):
    """Failure that ends a command, as one sentence that says what to do."""


class Unreachable(MigrationError):
    """No node of a cluster, or not the proxy, replies."""


class ApiRefused(MigrationError):
    """Error reply of the HTTP API."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _NoReply(Exception):
    """Reply that a node of the cluster did not give; the text is for people."""


def path(*words: str) -> str:
    """Return a path of the API with its names escaped."""
    return "/".join(quote(word, safe="") for word in words)


class BrokerApi:
    """HTTP API of one cluster."""

    def __init__(self, title: str, uris: list[str]) -> None:
        self.title = title
        """Name of the cluster in messages: `old` or `new`."""
        self._parts = []
        for uri in uris:
            parts = urlsplit(uri)
            if parts.scheme not in PORTS or not parts.hostname:
                raise MigrationError(
                    f"the address of the {title} cluster's HTTP API is invalid: write http://USER:PASSWORD@HOST:PORT"
                )
            self._parts.append(parts)
        self._first = 0

    @property
    def user(self) -> str:
        """User name of the login."""
        return unquote(self._parts[0].username or "guest")

    def get(self, target: str) -> Any:
        """Return the JSON reply."""
        return self._call("GET", target)

    def put(self, target: str, body: Any) -> Any:
        """Put an object."""
        return self._call("PUT", target, body)

    def post(self, target: str, body: Any) -> Any:
        """Post a document; return the reply."""
        return self._call("POST", target, body)

    def delete(self, target: str) -> None:
        """Delete an object; one that does not exist is no error."""
        try:
            self._call("DELETE", target)
        except ApiRefused as error:
            if error.status != NOT_FOUND:
                raise

    def _call(self, method: str, target: str, body: Any = None) -> Any:
        problems = []
        for turn in range(len(self._parts)):
            index = (self._first + turn) % len(self._parts)
            try:
                result = self._ask(index, method, target, body)
            except (OSError, http.client.HTTPException, _NoReply) as error:
                parts = self._parts[index]
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                problems.append(f"{parts.hostname}:{parts.port or PORTS[parts.scheme]} ({reason})")
                continue
            self._first = index
            return result
        raise Unreachable(
            f"no node of the {self.title} cluster replies: {', '.join(problems)}; start it, or correct the "
            "address"
        )

    def _ask(self, index: int, method: str, target: str, body: Any) -> Any:
        parts = self._parts[index]
        port = parts.port or PORTS[parts.scheme]
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                parts.hostname or "", port, timeout=TIMEOUT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=TIMEOUT_S)
        login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
        headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"{parts.path.rstrip('/')}/api/{target}", content, headers)
            answer = connection.getresponse()
            reply = answer.read(REPLY_BYTES_MAX + 1)
            if len(reply) > REPLY_BYTES_MAX:
                raise _NoReply(f"its reply is longer than {REPLY_BYTES_MAX} bytes")
            if answer.length:
                raise _NoReply("its reply is cut")
        finally:
            connection.close()
        return self._read(answer.status, reply, target)

    def _read(self, status: int, reply: bytes, target: str) -> Any:
        if status in NOT_NOW:
            raise _NoReply(f"status {status}")
        try:
            found = json.loads(reply) if reply else None
        except ValueError:
            found = None
        if status < FIRST_ERROR:
            if reply and found is None:
                raise _NoReply(f"status {status}, and no JSON: is it the HTTP API?")
            return found
        reason = found.get("reason") or found.get("error") if isinstance(found, dict) else None
        if status == UNAUTHORISED:
            text = f"the {self.title} cluster refuses the login of '{self.user}': use an administrator's"
        else:
            what = target.partition("?")[0]
            text = f"the {self.title} cluster refuses {what} ({status}: {reason or 'no reason'})"
        raise ApiRefused(status, text)
