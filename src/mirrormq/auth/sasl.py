"""SASL mechanisms: what a client sends in connection.start-ok, read into credentials.

A response that cannot be read raises `FrameSyntaxError`, a mechanism that is not offered
`CommandInvalid`. RabbitMQ puts neither on the wire: it logs them, stays silent for three seconds
and closes the socket, which is up to the connection. Our texts leave out what the client sent,
because that is where the password is.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.errors import AccessRefusedConnection, CommandInvalid, FrameSyntaxError
from mirrormq.wire.fields import decode_entries

PLAIN = "PLAIN"
AMQPLAIN = "AMQPLAIN"
EXTERNAL = "EXTERNAL"

DEFAULT_MECHANISMS = (AMQPLAIN, PLAIN)
"""In the order in which RabbitMQ names them in connection.start."""

_PLAIN_PARTS = 3


class Credentials(NamedTuple):
    """Who the client says it is, and how it means to show it."""

    mechanism: str
    user: str
    password: bytes | None
    """None: the client's certificate vouches for the user."""


def login_refused(mechanism: str) -> str:
    """The text of `LoginRefused`."""
    return (
        f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    )


class LoginRefused(AccessRefusedConnection):
    """403: wrong credentials, whatever was wrong with them."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(login_refused(mechanism))


def parse(
    mechanism: str,
    response: bytes,
    certificate_user: str | None = None,
    offered: tuple[str, ...] = DEFAULT_MECHANISMS,
) -> Credentials:
    """The credentials in a start-ok; `certificate_user` is the name a verified peer certificate gives."""
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
    """NUL, user, NUL, password. The first part, somebody to act for, must be empty as in RabbitMQ."""
    parts = response.split(b"\0")
    if len(parts) != _PLAIN_PARTS or parts[0]:
        raise FrameSyntaxError("PLAIN response invalid")
    return Credentials(PLAIN, _name(parts[1]), parts[2])


def parse_amqplain(response: bytes) -> Credentials:
    """A field table without its length, with the long strings LOGIN and PASSWORD."""
    table = decode_entries(response)
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None:
        raise FrameSyntaxError("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    if not isinstance(login.value, bytes) or not isinstance(password.value, bytes):
        raise FrameSyntaxError("AMQPLAIN LOGIN and PASSWORD must be strings")
    return Credentials(AMQPLAIN, _name(login.value), password.value)


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
