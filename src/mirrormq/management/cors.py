"""Which other sites' pages may use the API: the headers that a browser looks for."""

from __future__ import annotations

from collections.abc import Mapping

from mirrormq.config.settings import CorsOptions

REQUESTED_HEADERS = "access-control-request-headers"


def headers(options: CorsOptions, method: str, given: Mapping[str, str], allow: str) -> dict[str, str]:
    """What an answer says of the origin that a request names; nothing if it is not allowed. `allow` are
    the methods of the resource, for a browser that asks before it sends something."""
    origin = given.get("origin", "")
    if not options.allows(origin):
        return {}
    told = {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
    if method != "OPTIONS":
        return told
    told["access-control-allow-methods"] = allow
    if REQUESTED_HEADERS in given:
        told["access-control-allow-headers"] = given[REQUESTED_HEADERS]
    elif options.max_age_s is not None:
        told["access-control-max-age"] = str(options.max_age_s)
    return told
