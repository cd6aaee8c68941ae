"""Errors for clients, on their way from a queue's master to the client's node."""

from __future__ import annotations

from mirrormq.errors import (
    AccessRefused,
    AmqpError,
    ChannelError,
    InternalError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)

_BY_CODE: dict[int, type[ChannelError]] = {
    error.code: error for error in (AccessRefused, NotFound, ResourceLocked, PreconditionFailed)
}


def error_of(code: int, explanation: str, reason: str = "") -> AmqpError:
    """The error that a master answered with."""
    kind = _BY_CODE.get(code)
    return (InternalError if kind is None else kind)(explanation, reason=reason)
