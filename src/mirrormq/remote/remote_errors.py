"""Errors that a queue's master returns to the client's node."""

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
    """Return the exception for an error reply of a master."""
    kind = _BY_CODE.get(code)
    return (InternalError if kind is None else kind)(explanation, reason=reason)
