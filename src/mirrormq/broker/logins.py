"""Logins of AMQP and HTTP clients: the user behind some credentials, or the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrormq.auth.passwords import PasswordCheck
from mirrormq.auth.sasl import Credentials
from mirrormq.metadata import records

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

OVERLOADED = "too many logins of this address or user are waiting; try again later"


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """A client that wants to log in."""

    credentials: Credentials
    host: str
    is_loopback: bool
    decided: Callable[[records.User | None, str], None]
    """Gets the user, or None and the reason."""
    overloaded: Callable[[], None]
    """Called instead if the node has too many passwords to check."""
    wanted: Callable[[], bool]
    """False once the client is gone; neither of the others is called then."""


def authenticate(broker: Broker, login: Login) -> None:
    """Find out whether a client is the user that it says.

    A user that does not exist, and one that may not connect from this address, take as long as a wrong
    password: the time of a refusal tells nothing about users.
    """
    name, password = login.credentials.user, login.credentials.password
    users = broker.metadata.state.users
    found = users.get(name)

    def decide(right: bool) -> None:
        now = users.get(name)
        if not right or found is None or now is None or now.password_hash != found.password_hash:
            login.decided(None, f"user '{name}' - invalid credentials")
        elif not login.is_loopback and name in broker.settings.loopback_users:
            login.decided(None, f"user '{name}' can only connect via localhost")
        else:
            login.decided(now, "")

    if password is None:
        decide(True)
        return
    user = records.User(name) if found is None else found
    broker.verify_password(PasswordCheck(password, user, login.host, decide, login.overloaded, login.wanted))
