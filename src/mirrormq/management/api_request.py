"""One request on its way through the API, and what a handler may give back."""

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
    """An answer without a body."""

    status: int = NO_CONTENT
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ListReply:
    """Things in their default order, and how to show one: rows are built in slices, while others work."""

    items: Sequence[Any]
    row: Callable[[Any], dict[str, Any]]
    name: Callable[[Any], str] | None = None
    """Given if the listing can be paged and filtered by name."""
    prepare: Callable[[Sequence[Any]], Awaitable[None]] | None = None
    """Called with the next things before their rows are built: other nodes may have to be asked."""


@dataclass(slots=True)
class RawReply:
    """An answer of another kind than plain JSON."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StreamReply:
    """An answer without end: pieces as there is something to tell."""

    pieces: AsyncIterator[bytes]
    headers: dict[str, str]


@dataclass(slots=True)
class ApiRequest:
    """A request whose sender is known and may make it."""

    node: ManagedNode
    statistics: Statistics
    user: User
    method: str
    parts: dict[str, str]
    """The variable parts of the path."""
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes
    ranges: SampleRanges = NONE
    """Which histories are wanted."""
    host: str = ""
    """Where it comes from."""
    gone: asyncio.Future[None] | None = None
    """Done when the client is gone."""

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
        """Has the user any rights there?"""
        return (self.user.name, vhost) in self.state.permissions

    def vhosts(self) -> list[str]:
        """Those that the user may look into, by name: administrators into all."""
        return sorted(name for name in self.state.vhosts if self.is_administrator or self.may_enter(name))

    def chosen_vhosts(self) -> list[str]:
        """The one of the path, or all of the user's."""
        return [self.vhost] if "vhost" in self.parts else self.vhosts()

    @property
    def me(self) -> str:
        """This node's name."""
        return self.node.settings.name

    @property
    def peer_client(self) -> PeerClient:
        """The other nodes."""
        return PeerClient(self.node.cluster, self.me)

    @property
    def asked(self) -> dict[str, str]:
        """The part of the query that other nodes must know to build their rows."""
        return {name: text for name, text in self.query.items() if name.endswith(("_age", "_incr"))}

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    def body(self, *required: str, unreadable: str = NOT_JSON) -> dict[str, Any]:
        """The JSON object that was sent; nothing counts as an empty one."""
        content = self.content.removeprefix(BYTE_ORDER_MARK)
        try:
            found = msgspec.json.decode(content) if content.strip() else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_request(unreadable) from None
        if unreadable == NOT_JSON:
            found = {} if found is None else found
            if isinstance(found, str):
                raise bad_request(TWICE_ENCODED)
        if not isinstance(found, dict):
            raise bad_request(unreadable)
        if lacking := [name for name in required if name not in found]:
            raise keys_missing(lacking)
        return found

    def direct(self) -> DirectChannel:
        """What clients do, an administrator too does only with rights in the vhost."""
        if not self.may_enter(self.vhost):
            raise not_authorised(REFUSED)
        return self.node.direct(self.user, self.vhost)

    def write(self, *commands: Any) -> None:
        """Change the metadata in the user's name."""
        with self.node.metadata.acting_as(self.user.name):
            for command in commands:
                self.node.metadata.write(command)


def boolean(body: dict[str, Any], name: str) -> bool:
    """A member that may also be the word."""
    value = body.get(name, False)
    if value is True or value == "true":
        return True
    if value is False or value == "false":
        return False
    raise bad_request(["not_boolean", value])


def integer(value: Any) -> int:
    """A number that may also be its digits."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise bad_request(["not_integer", value]) from None


def table(body: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a declaration."""
    found = body.get("arguments", {})
    if isinstance(found, dict):
        return found
    if found == []:
        return {}
    raise bad_request("arguments should be an object")


def declared(error: AmqpError) -> HttpRefusal:
    """How RabbitMQ words what AMQP refuses to a declaration."""
    if error.code == 403:
        return not_authorised(REFUSED)
    return missing(error.explanation) if error.code == 404 else bad_request(error.explanation)


def spoken(error: AmqpError) -> HttpRefusal:
    """The same for publishing and getting, where the reply text is kept."""
    if error.code == 403:
        return not_authorised(error.text)
    return missing(error.text) if error.code == 404 else bad_request(f"{error.code} {error.text}")
