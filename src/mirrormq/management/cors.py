"""CORS headers: which pages of other sites may use the API."""

from __future__ import annotations

from collections.abc import Mapping

from mirrormq.config.settings import CorsOptions

REQUESTED_HEADERS = "access-control-request-headers"


def headers(options: CorsOptions, method: str, given: Mapping[str, str], allow: str) -> dict[str, str]:
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
