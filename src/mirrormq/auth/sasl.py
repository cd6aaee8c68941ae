"""SASL mechanisms: decode the response in connection.start-ok into credentials.

A malformed response raises `FrameSyntaxError`, a mechanism that is not offered `CommandInvalid`. RabbitMQ
sends neither to the client: it logs them, stays silent for three seconds and closes the socket. The
connection does the same. Error texts leave out the response, because it contains the password.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.errors import AccessRefusedConnection, CommandInvalid, FrameSyntaxError
from mirrormq.wire.fields import decode_entries

PLAIN = "PLAIN"
AMQPLAIN = "AMQPLAIN"
EXTERNAL = "EXTERNAL"

DEFAULT_MECHANISMS = (AMQPLAIN, PLAIN)
"""Mechanisms in the order in which RabbitMQ lists them in connection.start."""

_PLAIN_PARTS = 3


class Credentials(NamedTuple):
    """Claimed user of a client, with the mechanism and the password."""

    mechanism: str
    user: str
    password: bytes | None
    """None if the client's certificate authenticates the user."""


def login_refused(mechanism: str) -> str:
    """Return the text of `LoginRefused`."""
    return (
        f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    )


class LoginRefused(AccessRefusedConnection):
    """403: wrong credentials, without the reason."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(login_refused(mechanism))


def parse(
    mechanism: str,
    response: bytes,
    certificate_user: str | None = None,
    offered: tuple[str, ...] = DEFAULT_MECHANISMS,
) -> Credentials:
    """Decode the credentials of a start-ok; `certificate_user` is the name in a verified client
    certificate."""
    if mechanism not in offered:
        fault = "invalid" if mechanism in (PLAIN, AMQPLAIN, EXTERNAL) else "unknown"
        raise CommandInvalid(f"{fault} authentication mechanism '{mechanism}'")
    if mechanism == PLAIN:
        return parse_plain(response)
    if mechanism == AMQPLAIN:
        return parse_amqplain(response)
    if certificate_user is None:
        raise LoginRefused(EXTERNAL)
    return Credentials(EXTERNAL, certificate_user, None)


def parse_plain(response: bytes) -> Credentials:
    """Decode NUL, user, NUL, password. The authorisation identity before the first NUL must be empty, as in
    RabbitMQ."""
    parts = response.split(b"\0")
    if len(parts) != _PLAIN_PARTS or parts[0]:
        raise FrameSyntaxError("PLAIN response invalid")
    return Credentials(PLAIN, _name(parts[1]), parts[2])


def parse_amqplain(response: bytes) -> Credentials:
    """Decode a field table without its length, with the long strings LOGIN and PASSWORD."""
    table = decode_entries(response)
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None:
        raise FrameSyntaxError("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    if not isinstance(login.value, bytes) or not isinstance(password.value, bytes):
        raise FrameSyntaxError("AMQPLAIN LOGIN and PASSWORD must be strings")
    return Credentials(AMQPLAIN, _name(login.value), password.value)


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
