"""What can go wrong, on two axes: whose fault it is, and what dies of it.

    AmqpError                 the peer did something; it is told so on the wire
    ├── ChannelError          soft: the channel closes, the connection lives
    └── AmqpConnectionError      hard: the connection closes
    DamageError               our own disk gave back something we did not write
    StartError                a node cannot start
    ├── ConfigurationError    the operator's settings cannot be used; a restart does not help
    └── UnavailableError      an address, directory or disk cannot be used now; a restart may help

Every AMQP error carries RabbitMQ's reply code and the text behind the code's name, so that
`NotFound("no queue 'q' in vhost '/'")` leaves as 404 "NOT_FOUND - no queue 'q' in vhost '/'".
The class and method ids of the offending method are filled in by whoever dispatched it.
"""

from __future__ import annotations

import errno
from typing import ClassVar


class AmqpError(Exception):
    """An error that is reported to the peer with a reply code and text."""

    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"

    silent: ClassVar[bool] = False
    """RabbitMQ has no answer to this: its reader crashes and the client sees the connection end."""

    def __init__(
        self, explanation: str = "", *, class_id: int | None = None, method_id: int = 0, reason: str = ""
    ) -> None:
        super().__init__(explanation)
        self.explanation = explanation
        self.reason = reason
        """Machine-readable code (`ranges.reasons`) for replies that carry one. AMQP has no field for it."""
        self.class_id = class_id
        """None until whoever dispatched the offending method fills it in; 0 for no method at all."""
        self.method_id = method_id

    def at(self, method_id: int) -> AmqpError:
        """Fill in the method that it is about (class id in the upper half), unless that is known."""
        if self.class_id is None and self.code != InternalError.code:
            self.class_id, self.method_id = method_id >> 16, method_id & 0xFFFF
        return self

    @property
    def text(self) -> str:
        """The reply text exactly as RabbitMQ writes it."""
        return f"{self.name} - {self.explanation}" if self.explanation else self.name


class ChannelError(AmqpError):
    """Soft: closes the channel it happened on."""


class AmqpConnectionError(AmqpError):
    """Hard: closes the connection."""


class AccessRefused(ChannelError):
    code, name = 403, "ACCESS_REFUSED"


class NotFound(ChannelError):
    code, name = 404, "NOT_FOUND"


class ResourceLocked(ChannelError):
    code, name = 405, "RESOURCE_LOCKED"


class PreconditionFailed(ChannelError):
    code, name = 406, "PRECONDITION_FAILED"


class ConnectionForced(AmqpConnectionError):
    code, name = 320, "CONNECTION_FORCED"


class AccessRefusedConnection(AmqpConnectionError):
    code, name = 403, "ACCESS_REFUSED"


class FrameError(AmqpConnectionError):
    code, name = 501, "FRAME_ERROR"


class FrameSyntaxError(AmqpConnectionError):
    code, name = 502, "SYNTAX_ERROR"
    silent = True


class CommandInvalid(AmqpConnectionError):
    code, name = 503, "COMMAND_INVALID"


class ChannelErrorHard(AmqpConnectionError):
    code, name = 504, "CHANNEL_ERROR"


class UnexpectedFrame(AmqpConnectionError):
    code, name = 505, "UNEXPECTED_FRAME"


class ResourceError(AmqpConnectionError):
    code, name = 506, "RESOURCE_ERROR"


class NotAllowed(AmqpConnectionError):
    code, name = 530, "NOT_ALLOWED"


class NotImplementedByBroker(AmqpConnectionError):
    code, name = 540, "NOT_IMPLEMENTED"


class UnknownMethod(NotImplementedByBroker):
    """Class and method ids that nobody knows."""

    silent = True


class InternalError(AmqpConnectionError):
    code, name = 541, "INTERNAL_ERROR"


class DamageError(Exception):
    """Stored bytes do not match their checksum; `sequences` are the messages that are lost by it."""

    sequences: list[int]


class StartError(Exception):
    """A node cannot start; the text says why and what to do."""


class ConfigurationError(StartError):
    """A setting cannot be used; the text says which and what to write instead."""


class UnavailableError(StartError):
    """A resource that the settings name is in use or not there yet."""


SETTING_AT_FAULT = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EAFNOSUPPORT}
)
"""Answers of the system that stay the same until the operator changes something."""


def start_error(text: str, error: OSError) -> StartError:
    """Return the error to raise where the system refuses an address or a directory."""
    return (ConfigurationError if error.errno in SETTING_AT_FAULT else UnavailableError)(text)
