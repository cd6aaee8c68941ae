"""Requests of other sites' pages (CSRF): refused where they change something.

A browser adds the login that it remembers for this node to a form that any page sends. It also adds the
page's origin, which the page cannot choose: `PublishOrigin`, or `Referer` from older browsers. Programs such
as rabbitmqadmin and curl send neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from mirrormq.config.settings import CorsOptions
from mirrormq.management.http_errors import FORBIDDEN, HttpRefusal

READING = ("GET", "HEAD", "OPTIONS")
PORTS = {"http": 80, "https": 443}


def check(method: str, scheme: str, headers: Mapping[str, str], cors: CorsOptions) -> None:
    """Refuse a request that changes something and comes from a page of a site that is not allowed."""
    if method in READING:
        return
    site = headers.get("sec-fetch-site")
    if site == "same-origin":
        # The browser has compared what a proxy may have changed since: the scheme and the host.
        return
    origin = headers.get("origin") or headers.get("referer")
    if cors.allows(headers.get("origin", "")) or (origin is None and site in (None, "none")):
        return
    if origin is None or site in ("cross-site", "same-site") or not _is_own(origin, scheme, headers):
        raise HttpRefusal(FORBIDDEN, "not_authorised", "A page of another site may not do this")


def _is_own(origin: str, scheme: str, headers: Mapping[str, str]) -> bool:
    """Is this the origin that the request is addressed to?

    A proxy may name the address that the browser used in `X-Forwarded-Host`. Pages cannot set that header
    without asking first (CORS).
    """
    try:
        page = urlsplit(origin)
        place = (page.hostname, page.port or PORTS[page.scheme])
        if scheme == "https" and page.scheme != "https":
            return False
        named = (headers.get("host", ""), headers.get("x-forwarded-host", ""))
        hosts = [urlsplit(f"//{name.strip()}") for name in named if name]
        return place in [(host.hostname, host.port or PORTS[page.scheme]) for host in hosts]
    except (ValueError, KeyError):
        return False  # `null`, or something that is no origin
