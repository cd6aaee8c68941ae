"""Control protocol: one request and one reply per connection, each a length and a JSON document.

    request   {"verb": "add_user", "arguments": ["anna", "secret"], "options": {"vhost": "/"}}
    reply     {"ok": true, "result": …}   or   {"ok": false, "error": "…", "exit_code": 67}

The length is four bytes, big-endian. The socket is a file that only its owner can reach (its directory
has mode 0700), so any process that can connect may run every command. There is no password, as there is
none between RabbitMQ's tools and a node that share a cookie file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mirrormq import limits
from mirrormq.errors import ConfigurationError

LENGTH_BYTES = 4

# Exit codes of sysexits.h, used in the same cases as rabbitmqctl uses them.
EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_NO_USER = 67
EXIT_UNAVAILABLE = 69
EXIT_SOFTWARE = 70
EXIT_TIMEOUT = 75

NOT_MIRRORED = "not_mirrored"
"""Reason of an error: no policy mirrors the queue. It is also rabbitmqctl's text."""


class ControlError(Exception):
    """Failed command: error text for stderr and exit code of the program."""

    def __init__(
        self, text: str, exit_code: int = EXIT_UNAVAILABLE, *, released: bool = False, hint: str = "",
        reason: str = "",
    ) -> None:  # fmt: skip
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code
        self.released = released
        """Whether the text is printed without the line `Error:` above it, as rabbitmqctl does for missing
        vhosts."""
        self.hint = hint
        """Plain sentence that explains a text in Erlang syntax; see `control.hints`."""
        self.reason = reason
        """Machine-readable code; empty for errors by which no caller decides."""

    def reply(self) -> dict[str, Any]:
        """Return the reply document of this error."""
        document = {"ok": False, "error": self.text, "exit_code": self.exit_code, "bare": self.released}
        optional = {"hint": self.hint, "reason": self.reason}
        return {**document, **{name: text for name, text in optional.items() if text}}

    @classmethod
    def of_reply(cls, reply: dict[str, Any]) -> ControlError:
        """Build the error from a reply document. Nodes of earlier versions omit fields that they do not
        know."""
        released, hint, reason = reply.get("bare", False), reply.get("hint", ""), reply.get("reason", "")
        return cls(reply["error"], reply["exit_code"], released=released, hint=hint, reason=reason)


@dataclass(frozen=True, slots=True)
class Request:
    """Command name with its arguments and options."""

    verb: str
    arguments: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def vhost(self) -> str:
        return str(self.options.get("vhost", "/"))

    def flag(self, name: str) -> bool:
        return bool(self.options.get(name))


def read_request(document: bytes) -> Request:
    """Decode a request; raise ControlError if the document is invalid."""
    try:
        request = msgspec.json.decode(document, type=Request)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ControlError(f"The control request cannot be read: {error}.", EXIT_USAGE) from None
    return request


def frame(document: dict[str, Any]) -> bytes:
    """Encode a document with its length prefix."""
    encoded = encode_document(document)
    return len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded


def encode_document(document: Any) -> bytes:
    """Encode a request or reply as JSON. Bytes that are not UTF-8 become the replacement character."""
    return msgspec.json.encode(_printable(document))


def _printable(value: Any) -> Any:
    """Return the value without lone surrogates, which JSON cannot represent."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        )
    if isinstance(value, dict):
        return {_printable(key): _printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(inner) for inner in value]
    return value


def socket_path(runtime_directory: Path, node_name: str) -> Path:
    """Return the path of a node's control socket."""
    path = runtime_directory / f"{node_name}.sock"
    if len(str(path).encode()) > limits.SOCKET_PATH_BYTES_MAX:
        raise ConfigurationError(
            f"The path of the control socket {path} is longer than {limits.SOCKET_PATH_BYTES_MAX} bytes: "
            "set MIRRORMQ_RUNTIME_DIR to a shorter directory."
        )
    return path
