"""Origins of requests: pages of other sites may use the API only as CORS settings allow.

Protection against cross-site request forgery: requests of other sites' pages may not change anything.

A browser adds the login that it remembers for this node to a form that any page sends. The browser also
adds the page's origin, which the page cannot choose: `Origin`, or `Referer` from older browsers. Programs
such as rabbitmqadmin and curl send neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from mirrormq.config.settings import CorsOptions
from mirrormq.management.http_errors import FORBIDDEN, HttpRefusal

READING = ("GET", "HEAD", "OPTIONS")
PORTS = {"http": 80, "https": 443}


def check(method: str, scheme: str, headers: Mapping[str, str], cors: CorsOptions) -> None:
    """Refuse a changing request from a page whose site is not allowed."""
    if method in READING:
        return
    site = headers.get("sec-fetch-site")
    if site == "same-origin":
        # The browser compared scheme and host itself, before a proxy could change them.
        return
    origin = headers.get("origin") or headers.get("referer")
    if cors.allows(headers.get("origin", "")) or (origin is None and site in (None, "none")):
        return
    if origin is None or site in ("cross-site", "same-site") or not _is_own(origin, scheme, headers):
        raise HttpRefusal(FORBIDDEN, "not_authorised", "A page of another site may not do this")


def _is_own(origin: str, scheme: str, headers: Mapping[str, str]) -> bool:
    """Report whether the request is addressed to this origin.

    A proxy may name the address that the browser used in `X-Forwarded-Host`. Pages cannot set that header
    without a preflight request (CORS).
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
        return False  # `null`, or an invalid origin.


REQUESTED_HEADERS = "access-control-request-headers"


def cors_headers(options: CorsOptions, method: str, given: Mapping[str, str], allow: str) -> dict[str, str]:
    """Return the CORS headers for the origin of a request; none if the origin is not allowed. `allow`
    lists the methods of the resource, for preflight requests."""
    origin = given.get("origin", "")
    if not options.allows(origin):
        return {}
    reply_headers = {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
    if method != "OPTIONS":
        return reply_headers
    reply_headers["access-control-allow-methods"] = allow
    if REQUESTED_HEADERS in given:
        reply_headers["access-control-allow-headers"] = given[REQUESTED_HEADERS]
    elif options.max_age_s is not None:
        reply_headers["access-control-max-age"] = str(options.max_age_s)
    return reply_headers
