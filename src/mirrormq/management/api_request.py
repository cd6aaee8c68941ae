"""API request as handlers see it, and the kinds of replies that a handler may return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mirrormq.errors import AmqpError
from mirrormq.management.http_errors import HttpRefusal, bad_request, keys_missing, missing, not_authorised
from mirrormq.management.managed_node import DirectChannel, ManagedNode
from mirrormq.management.peer_client import PeerClient
from mirrormq.management.sample_ranges import NONE, SampleRanges
from mirrormq.management.statistics import Statistics
from mirrormq.metadata.records import User
from mirrormq.metadata.state import MetadataState

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TWICE_ENCODED = (
    "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
)
NOT_JSON = "not_json"
REFUSED = "Access refused."
CREATED = 201
NO_CONTENT = 204


@dataclass(slots=True)
class EmptyReply:
    """Reply without a body."""

    status: int = NO_CONTENT
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ListReply:
    """List of objects in their default order, with a function that builds a row; rows are built in chunks."""

    items: Sequence[Any]
    row: Callable[[Any], dict[str, Any]]
    name: Callable[[Any], str] | None = None
    """Function that returns an object's name; present if the list can be paged and filtered by name."""
    prepare: Callable[[Sequence[Any]], Awaitable[None]] | None = None
    """Coroutine called with the next objects before their rows are built, to fetch facts from other nodes."""


@dataclass(slots=True)
class RawReply:
    """Reply with a body of any content type."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StreamReply:
    """Endless reply that is sent piece by piece."""

    pieces: AsyncIterator[bytes]
    headers: dict[str, str]


@dataclass(slots=True)
class ApiRequest:
    """Request of an authenticated and authorised user."""

    node: ManagedNode
    statistics: Statistics
    user: User
    method: str
    parts: dict[str, str]
    """Variable parts of the path."""
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes
    ranges: SampleRanges = NONE
    """Ranges of the requested sample histories."""
    host: str = ""
    """Address of the client."""
    gone: asyncio.Future[None] | None = None
    """Future that is done when the client has disconnected."""

    @property
    def state(self) -> MetadataState:
        return self.node.metadata.state

    @property
    def vhost(self) -> str:
        return self.parts["vhost"]

    @property
    def name(self) -> str:
        return self.parts["name"]

    @property
    def is_monitor(self) -> bool:
        return bool({"administrator", "monitoring"} & set(self.user.tags))

    @property
    def is_administrator(self) -> bool:
        return "administrator" in self.user.tags

    def may_enter(self, vhost: str) -> bool:
        """Report whether the user has any permissions in the vhost."""
        return (self.user.name, vhost) in self.state.permissions

    def vhosts(self) -> list[str]:
        """Return the names of the vhosts that the user may access; administrators may access all."""
        return sorted(name for name in self.state.vhosts if self.is_administrator or self.may_enter(name))

    def chosen_vhosts(self) -> list[str]:
        """Return the vhost of the path, or all vhosts of the user."""
        return [self.vhost] if "vhost" in self.parts else self.vhosts()

    @property
    def me(self) -> str:
        """Name of this node."""
        return self.node.settings.name

    @property
    def peer_client(self) -> PeerClient:
        """Client for requests to the other nodes."""
        return PeerClient(self.node.cluster, self.me)

    @property
    def asked(self) -> dict[str, str]:
        """Part of the query that other nodes need to build their rows."""
        return {name: text for name, text in self.query.items() if name.endswith(("_age", "_incr"))}

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    def body(self, *required: str, unreadable: str = NOT_JSON) -> dict[str, Any]:
        """Return the JSON object of the body; an empty body counts as an empty object."""
        content = self.content.removeprefix(BYTE_ORDER_MARK)
        try:
            document = msgspec.json.decode(content) if content.strip() else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_request(unreadable) from None
        if unreadable == NOT_JSON:
            document = {} if document is None else document
            if isinstance(document, str):
                raise bad_request(TWICE_ENCODED)
        if not isinstance(document, dict):
            raise bad_request(unreadable)
        if lacking := [name for name in required if name not in document]:
            raise keys_missing(lacking)
        return document

    def direct(self) -> DirectChannel:
        """Return a channel with the user's permissions; administrators too need permissions in the vhost."""
        if not self.may_enter(self.vhost):
            raise not_authorised(REFUSED)
        return self.node.direct(self.user, self.vhost)

    def write(self, *commands: Any) -> None:
        """Write metadata commands with the user as acting user."""
        with self.node.metadata.acting_as(self.user.name):
            for command in commands:
                self.node.metadata.write(command)


def boolean(body: dict[str, Any], name: str) -> bool:
    """Return a boolean member, which may also be the text `true` or `false`."""
    value = body.get(name, False)
    if value is True or value == "true":
        return True
    if value is False or value == "false":
        return False
    raise bad_request(["not_boolean", value])


def integer(value: Any) -> int:
    """Return an integer, which may also be given as digits in a text."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise bad_request(["not_integer", value]) from None


def table(body: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a declaration."""
    found = body.get("arguments", {})
    if isinstance(found, dict):
        return found
    if found == []:
        return {}
    raise bad_request("arguments should be an object")


def declared(error: AmqpError) -> HttpRefusal:
    """Return RabbitMQ's HTTP error for an AMQP error of a declaration."""
    if error.code == 403:
        return not_authorised(REFUSED)
    return missing(error.explanation) if error.code == 404 else bad_request(error.explanation)


def refusal_of(error: AmqpError) -> HttpRefusal:
    """Return RabbitMQ's HTTP error for an AMQP error of a publish or get; the reply text is kept."""
    if error.code == 403:
        return not_authorised(error.text)
    return missing(error.text) if error.code == 404 else bad_request(f"{error.code} {error.text}")
