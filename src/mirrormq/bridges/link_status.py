"""Status of a link, as lists, metrics and the page show it."""

from __future__ import annotations

import math
from enum import Enum

import msgspec


class LinkState(Enum):
    """State of a link. `starting`, `running` and `terminated` are RabbitMQ's."""

    STARTING = "starting"
    """First attempt: nothing has failed yet."""
    RUNNING = "running"
    """Both ends are open, and the source's consumer exists."""
    BLOCKED = "blocked"
    """Both ends are open, and the destination takes no messages; the reason says why."""
    TERMINATED = "terminated"
    """The last attempt failed; the reason says why."""
    FINISHED = "finished"
    """The link has moved as many messages as it should."""


class LinkStatus(msgspec.Struct, frozen=True):
    """Status of a link at one moment."""

    state: str
    reason: str
    """Cause of `blocked` and `terminated`, one sentence without credentials; else empty."""
    changed_ms: int
    """Time of the last change of the state, in milliseconds since the Unix epoch."""
    source_uri: str = ""
    destination_uri: str = ""
    """URIs in use without credentials; empty unless connected."""
    attempts: int = 0
    """Failed attempts since the link last ran."""
    next_attempt_ms: int = 0
    """Time of the next attempt; 0 if none is planned."""
    forwarded: int = 0
    """Messages moved since this node started the link."""
    remaining: int = -1
    """Messages left to move; -1 without a limit."""
    pending: int = 0
    """Messages that wait to be published."""
    unconfirmed: int = 0
    """Published messages without a confirm."""
    refused: int = 0
    """Refusals by the destination: rejected and unroutable messages."""
    restarts: int = 0
    """Attempts that failed since this node started the link."""
    backlog: int = -1
    """Messages that wait at the source, a check interval old at most; -1 unless connected."""
    last_message_ms: int = 0
    """Time at which the link last moved a message; 0: never."""
    rate: float = 0.0
    """Messages moved per second, over the last seconds."""
    local_connection: str = ""
    """Name of the destination's connection if it is inside this node and open."""

    @property
    def eta_s(self) -> int:
        """Time that the remaining messages need at this rate; -1 if it is not known."""
        return math.ceil(self.remaining / self.rate) if self.remaining >= 0 and self.rate > 0 else -1


def shown_uri(uri: str) -> str:
    """Return a URI without user, password and query."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    rest = rest.partition("?")[0].partition("#")[0]
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
