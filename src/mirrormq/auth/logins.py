"""Logins of AMQP and HTTP clients: the user of given credentials, or the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from mirrormq.auth.passwords import PasswordCheck
from mirrormq.auth.sasl import Credentials
from mirrormq.metadata import records
from mirrormq.metadata.store import MetadataStore

OVERLOADED = "too many logins of this address or user are waiting; try again later"


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """Login attempt of a client."""

    credentials: Credentials
    host: str
    is_loopback: bool
    decided: Callable[[records.User | None, str], None]
    """Called with the user, or with None and the reason."""
    overloaded: Callable[[], None]
    """Called instead if the node has too many passwords to check."""
    wanted: Callable[[], bool]
    """Returns False once the client is gone; neither of the other two is called then."""


class LoginSettings(Protocol):
    """Settings of logins."""

    @property
    def loopback_users(self) -> Collection[str]: ...


class LoginHost(Protocol):
    """Node that clients log in to."""

    @property
    def settings(self) -> LoginSettings: ...
    @property
    def metadata(self) -> MetadataStore: ...
    @property
    def verify_password(self) -> Callable[[PasswordCheck], None]: ...


def authenticate(host: LoginHost, login: Login) -> None:
    """Authenticate a client.

    An unknown user, and a user that may not connect from this address, take as long as a wrong password.
    The time of a refusal therefore reveals nothing about users.
    """
    name, password = login.credentials.user, login.credentials.password
    users = host.metadata.state.users
    user_before = users.get(name)

    def decide(right: bool) -> None:
        current = users.get(name)
        if (
            not right
            or user_before is None
            or current is None
            or current.password_hash != user_before.password_hash
        ):
            login.decided(None, f"user '{name}' - invalid credentials")
        elif not login.is_loopback and name in host.settings.loopback_users:
            login.decided(None, f"user '{name}' can only connect via localhost")
        else:
            login.decided(current, "")

    if password is None:
        decide(True)
        return
    # The password for an unknown user is hashed too, so that its refusal takes as long.
    user = records.User(name) if user_before is None else user_before
    host.verify_password(PasswordCheck(password, user, login.host, decide, login.overloaded, login.wanted))
