"""Access control of the API: HTTP basic authentication and RabbitMQ's user tags.

As in RabbitMQ, the check runs before any lookup, so that a refusal does not reveal which objects exist.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from mirrormq.management.api_request import ApiRequest
from mirrormq.management.http_errors import (
    BAD_REQUEST,
    UNAUTHORISED,
    HttpRefusal,
    SilentRefusal,
    missing,
    not_authorised,
    not_found,
)

CHALLENGE = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}

DIGEST, TOKEN = "digest", "bearer"

ADMINISTRATOR = "administrator"
MONITORING = "monitoring"
POLICYMAKER = "policymaker"
MANAGEMENT = "management"

Check = Callable[[ApiRequest], None]


def credentials(header: str | None) -> tuple[str, bytes]:
    """Return name and password of an Authorization header; without a header, raise a challenge.

    An unreadable header is a bad request. As in RabbitMQ, tokens and digests are parsed, but never
    accepted.
    """
    scheme, _, given = (DIGEST if header is None else header).partition(" ")
    scheme, given = scheme.lower(), given.strip()
    if scheme == DIGEST:
        refusal = SilentRefusal(UNAUTHORISED)
        refusal.headers = CHALLENGE
        raise refusal
    # A well-formed token is a failed login, a malformed one a bad request.
    if scheme == TOKEN and len(given.split()) == 1:
        raise login_failed()
    try:
        raw = base64.b64decode(given, validate=True) if scheme == "basic" else b""
    except (binascii.Error, ValueError):
        raw = b""
    name, separator, password = raw.partition(b":")
    if not separator:
        raise SilentRefusal(BAD_REQUEST)
    return name.decode("utf-8", "surrogateescape"), password


def login_failed() -> HttpRefusal:
    """Return RabbitMQ's refusal of a login, which spells `not_authorized` with a z."""
    return HttpRefusal(UNAUTHORISED, "not_authorized", "Login failed", headers=CHALLENGE)


def no_login_required(call: ApiRequest) -> None:
    """Accept requests without a login."""


def management(call: ApiRequest) -> None:
    """Require a user with any management tag."""
    if not {ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT} & set(call.user.tags):
        raise not_authorised("Not management user")


def monitor(call: ApiRequest) -> None:
    management(call)
    if not call.is_monitor:
        raise not_authorised("Not monitor user")


def administrator(call: ApiRequest) -> None:
    management(call)
    if not call.is_administrator:
        raise not_authorised("Not administrator user")


def vhost(call: ApiRequest) -> None:
    """Require permissions in the vhost of the path, if the path has one; administrators may access all
    vhosts."""
    management(call)
    if "vhost" not in call.parts:
        return
    if call.vhost not in call.state.vhosts:
        raise not_found() if call.method in ("GET", "HEAD", "DELETE") else missing("vhost_not_found")
    if not call.is_administrator and not call.may_enter(call.vhost):
        raise not_authorised("User not authorised to access virtual host")


def vhost_if_any(call: ApiRequest) -> None:
    """Require permissions in the vhost of the path if it exists; the channel reports a missing vhost."""
    management(call)
    if call.vhost in call.state.vhosts:
        vhost(call)


def visible_vhost(call: ApiRequest) -> None:
    """Require permissions in the vhost of the path; users with the tag monitoring see every vhost."""
    management(call)
    if call.is_monitor and call.parts.get("vhost", "") in call.state.vhosts:
        return
    vhost(call)


def policymaker(call: ApiRequest) -> None:
    """Require the tag policymaker and permissions in the vhost; administrators may access all vhosts."""
    management(call)
    named = call.parts.get("vhost")
    is_theirs = named not in call.state.vhosts or call.may_enter(named)
    if not call.is_administrator and not (POLICYMAKER in call.user.tags and is_theirs):
        raise not_authorised("User not authorised to access object")
    vhost(call)


def operator_policy(call: ApiRequest) -> None:
    """Require an administrator for a single operator policy; the list is open to all users."""
    administrator(call)
    vhost(call)


def administrator_to_change(call: ApiRequest) -> None:
    (management if call.method in ("GET", "HEAD") else administrator)(call)
