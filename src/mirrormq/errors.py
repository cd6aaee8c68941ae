"""Exceptions of the broker, by cause and by what closes.

    AmqpError                 the client's request is wrong; the broker replies with a code and a text
    ├── ChannelError          soft: the channel closes, the connection stays open
    └── AmqpConnectionError      hard: the connection closes
    DamageError               stored bytes do not match their checksum
    StartError                a node cannot start
    ├── ConfigurationError    the operator's settings cannot be used; a restart does not help
    └── UnavailableError      an address, directory or disk cannot be used now; a restart may help

Every AMQP error carries RabbitMQ's reply code and the text behind the code's name. For example,
`NotFound("no queue 'q' in vhost '/'")` is sent as 404 "NOT_FOUND - no queue 'q' in vhost '/'".
The dispatching code fills in the class and method ids of the offending method.
"""

from __future__ import annotations

import errno
from typing import ClassVar


class AmqpError(Exception):
    """Error that the broker reports to the client with a reply code and text."""

    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"

    silent: ClassVar[bool] = False
    """True if RabbitMQ sends no reply: its reader crashes, and the client sees the connection end."""

    def __init__(
        self, explanation: str = "", *, class_id: int | None = None, method_id: int = 0, reason: str = ""
    ) -> None:
        super().__init__(explanation)
        self.explanation = explanation
        self.reason = reason
        """Machine-readable code (`ranges.error_reasons`) for replies that carry one; AMQP has none."""
        self.class_id = class_id
        """None until the dispatching code fills in the offending method; 0 for no method."""
        self.method_id = method_id

    def at(self, method_id: int) -> AmqpError:
        """Set the offending method (class id in the upper half), unless one is set."""
        if self.class_id is None and self.code != InternalError.code:
            self.class_id, self.method_id = method_id >> 16, method_id & 0xFFFF
        return self

    @property
    def text(self) -> str:
        """Return the reply text exactly as RabbitMQ writes it."""
        return f"{self.name} - {self.explanation}" if self.explanation else self.name


class ChannelError(AmqpError):
    """Soft error: closes the channel on which it happened."""


class AmqpConnectionError(AmqpError):
    """Hard error: closes the connection."""


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
    """Class and method ids that the protocol does not define."""

    silent = True


class InternalError(AmqpConnectionError):
    code, name = 541, "INTERNAL_ERROR"


class DamageError(Exception):
    """Stored bytes do not match their checksum. `sequences` lists the lost messages."""

    sequences: list[int]


class StartError(Exception):
    """Node cannot start; the text names the reason and the remedy."""


class ConfigurationError(StartError):
    """Setting cannot be used; the text names the setting and a valid value."""


class UnavailableError(StartError):
    """Resource of the settings that is in use or does not exist yet."""


SETTING_AT_FAULT = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EAFNOSUPPORT}
)
"""Error numbers that persist until the operator changes a setting."""


def start_error(text: str, error: OSError) -> StartError:
    """Return the error to raise when the operating system refuses an address or a directory."""
    return (ConfigurationError if error.errno in SETTING_AT_FAULT else UnavailableError)(text)
