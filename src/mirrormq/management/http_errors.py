"""HTTP errors with RabbitMQ's texts.

A refusal is an exception with a status and RabbitMQ's error JSON, `{"error": …, "reason": …}`. Some of
RabbitMQ's reasons are Erlang terms converted to JSON: a tuple becomes a list, such as `["not_int", "x"]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mirrormq.wire.erlang_terms import LINE_WIDTH

BAD_REQUEST = 400
UNAUTHORISED = 401
FORBIDDEN = 403
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
UNSUPPORTED_MEDIA_TYPE = 415
TOO_MANY_REQUESTS = 429
INTERNAL_ERROR = 500
NOT_IMPLEMENTED = 501
UNAVAILABLE = 503


class HttpRefusal(Exception):
    """Error reply to a request."""

    def __init__(
        self, status: int, error: str, reason: Any, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}

    @property
    def body(self) -> bytes:
        return encode({"error": self.error, "reason": self.reason})


class SilentRefusal(HttpRefusal):
    """Error reply without a body, as RabbitMQ's crashed handlers send."""

    def __init__(self, status: int = INTERNAL_ERROR) -> None:
        super().__init__(status, "", "")

    @property
    def body(self) -> bytes:
        return b""


def not_found() -> HttpRefusal:
    """Return the error for a path without an object."""
    return HttpRefusal(NOT_FOUND, "Object Not Found", "Not Found")


def missing(reason: str) -> HttpRefusal:
    """Return the error for a missing object that the request names."""
    return HttpRefusal(NOT_FOUND, "not_found", reason)


def bad_request(reason: Any) -> HttpRefusal:
    """Return the error for an invalid request."""
    return HttpRefusal(BAD_REQUEST, "bad_request", reason)


def not_authorised(reason: str) -> HttpRefusal:
    """Return the error for a user without the required permissions."""
    return HttpRefusal(UNAUTHORISED, "not_authorised", reason)


def undecided() -> HttpRefusal:
    """Return the error for a change that the cluster has not committed in time."""
    reason = "the change waits for a majority of the cluster's nodes, and may still be made"
    return HttpRefusal(UNAVAILABLE, "service_unavailable", reason)


def too_many_logins(reason: str) -> HttpRefusal:
    """Return the error for an address or user with too many unchecked logins."""
    return HttpRefusal(TOO_MANY_REQUESTS, "too_many_requests", reason, headers={"retry-after": "5"})


def keys_missing(names: Iterable[str]) -> HttpRefusal:
    """Return the error for missing members of a JSON object, listed as Erlang's ~p prints them."""
    pairs = [f"{{key_missing,{name}}}" for name in names]
    line = "[" + ",".join(pairs) + "]"
    return bad_request(line if len(line) <= LINE_WIDTH else "[" + ",\n ".join(pairs) + "]")


def html_escaped(text: str) -> str:
    """Escape a text as RabbitMQ does in the reasons of refused policies and parameters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def encode(value: Any) -> bytes:
    """Encode plain values as JSON; bytes that are not UTF-8 become the replacement character."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, ValueError):
        return msgspec.json.encode(printable(value))


def printable(value: Any) -> Any:
    """Return the value without lone surrogates, which JSON cannot represent."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {printable(key): printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable(inner) for inner in value]
    return value
