"""Static files of the web page, served from memory as they are in `web/`.

There is no build step. The first page loads its files from `assets/DIGEST/`. The digest covers all files, so
a browser may cache them for ever and never mixes two versions. Addresses in the page are relative, so it
works behind a proxy that adds a prefix.

The headers allow only scripts, styles and requests of this origin: no inline code, no frames, no text that
becomes markup. The page logs in with a header that its script sets, never with a cookie, so another site's
page cannot act as its user.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from mirrormq.management.http_errors import METHOD_NOT_ALLOWED, SilentRefusal, not_found

FIRST_PAGE = "index.html"
PLACEHOLDER = b"{assets}"
ASSETS = "/assets/"

NOT_MODIFIED = 304
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "md": "text/plain; charset=utf-8",
}

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class StaticPage(NamedTuple):
    """File with its compressed body and headers."""

    body: bytes
    packed: bytes
    headers: dict[str, str]


class StaticPages:
    """All files of the page by path."""

    def __init__(self) -> None:
        found = dict(sorted(_read(files("mirrormq.management") / "web")))
        digest = hashlib.sha256()
        for path, body in found.items():
            digest.update(f"{path}\0{len(body)}\0".encode() + body)
        assets = f"{ASSETS}{digest.hexdigest()[:16]}/"
        first = found.pop(FIRST_PAGE).replace(PLACEHOLDER, assets.strip("/").encode())
        self._pages = {"/": _page(FIRST_PAGE, first, ASK_AGAIN)}
        self._pages |= {assets + path: _page(path, body, FOR_EVER) for path, body in found.items()}

    def answer(self, request: Request, path: str) -> Response:
        """Return the file of a path; compressed if the browser accepts it, and without a body if it is
        cached."""
        page = self._pages.get(path)
        if page is None:
            raise not_found()
        if request.method not in ("GET", "HEAD"):
            refusal = SilentRefusal(METHOD_NOT_ALLOWED)
            refusal.headers = {"allow": "HEAD, GET"}
            raise refusal
        if page.headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(b"", NOT_MODIFIED, page.headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(page.packed, 200, {**page.headers, "content-encoding": "gzip"})
        return Response(page.body, 200, page.headers)


def _page(path: str, body: bytes, keeping: str) -> StaticPage:
    headers = {
        **HEADERS,
        "content-type": TYPES[path.rpartition(".")[2]],
        "cache-control": keeping,
        "etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "vary": "accept-encoding",
    }
    return StaticPage(body, gzip.compress(body, mtime=0), headers)


def _read(folder: Traversable, before: str = "") -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        path = before + entry.name
        if entry.is_dir():
            found += _read(entry, f"{path}/")
        elif path.rpartition(".")[2] in TYPES:
            found.append((path, entry.read_bytes()))
    return found
