"""Startup banner of `mirrormq server`: version, addresses, files, and how to stop it."""

from __future__ import annotations

from pathlib import Path

from mirrormq import __version__
from mirrormq.config.settings import Address, Settings


def banner(settings: Settings, cookie: Path | None) -> str:
    """Return the lines for a terminal; `cookie` is None where the environment holds the secret itself."""
    rows = [("data", str(settings.data_directory.absolute()))]
    rows += [("amqp", str(address)) for address in settings.amqp_listeners]
    rows += [("amqps", str(address)) for address in settings.tls_listeners]
    if settings.management_listener is not None:
        rows.append(("page", _page("http", settings.management_listener)))
    if settings.management_tls_listener is not None:
        rows.append(("page", _page("https", settings.management_tls_listener)))
    if settings.cluster_listener is not None:
        rows.append(("cookie", "MIRRORMQ_COOKIE" if cookie is None else str(cookie.absolute())))
    rows.append(("stop", "Ctrl-C or SIGTERM"))
    lines = [f"  {name:<8}{text}" for name, text in rows]
    return "\n".join([f"MirrorMQ {__version__}, node {settings.name}", *lines])


def _page(scheme: str, address: Address) -> str:
    """Return a URL that this host can open; an address without a host listens on every interface."""
    return f"{scheme}://{address._replace(host=address.host or 'localhost')}/"
