"""Command `mirrormq server`: its options, its settings, its banner, and the node in the foreground."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq import __version__
from mirrormq.cli.data_lock import locked
from mirrormq.config import cookie

if TYPE_CHECKING:
    from mirrormq.config.settings import Address, Settings

TEXT_OPTIONS = ("name", "management", "cluster")
PATH_OPTIONS = ("data", "conf", "cookie_file")
REPEATED_OPTIONS = ("amqp", "join")


def plain_options(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the options of a plain command line, `--option value` or `--option=value`. Return None for any
    other one: it asks for help or is wrong."""
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        flag, joined, value = word.partition("=")
        option = flag.removeprefix("--").replace("-", "_")
        if flag != "--" + option.replace("_", "-") or (not joined and (value := next(rest, "")) == ""):
            return None
        if not joined and value.startswith("-"):
            return None
        if option in TEXT_OPTIONS:
            options[option] = value
        elif option in PATH_OPTIONS:
            options[option] = Path(value)
        elif option in REPEATED_OPTIONS:
            options.setdefault(option, []).append(value)
        else:
            return None
    return options


def serve(cookie_file: Path | None = None, **flags: Any) -> int:
    """Run one node in the foreground. Return its exit code."""
    settings = server_settings(cookie_file=cookie_file, **flags)
    from mirrormq.runtime.node import run  # Imported here, so that wrong settings are refused at once.

    with locked(settings.data_directory):
        # No banner in a JSON log: its readers parse every line. A closed stdout must not stop the node.
        if settings.log.formatter != "json":
            with suppress(OSError):
                print(banner(settings, cookie.cookie_file(os.environ, cookie_file)), flush=True)
        return run(settings)


def server_settings(
    name: str | None = None,
    data: Path | None = None,
    amqp: list[str] | None = None,
    management: str | None = None,
    cluster: str | None = None,
    conf: Path | None = None,
    join: list[str] | None = None,
    cookie_file: Path | None = None,
) -> Settings:
    """Combine flags, environment and configuration file."""
    from mirrormq.config.conf import ConfEntry
    from mirrormq.config.settings_loader import load_settings

    flags = [
        ConfEntry(key, str(value), flag)
        for key, value, flag in (
            ("name", name, "--name"),
            ("data_directory", data, "--data"),
            ("management.address", management, "--management"),
            ("cluster.listener", cluster, "--cluster"),
        )
        if value is not None
    ]
    flags += [ConfEntry(f"listeners.tcp.{index}", value, "--amqp") for index, value in enumerate(amqp or [])]
    flags += [ConfEntry(f"join.{index}", value, "--join") for index, value in enumerate(join or [])]
    if conf is None and os.environ.get("MIRRORMQ_CONF"):
        conf = Path(os.environ["MIRRORMQ_CONF"])
    settings = load_settings(flags, os.environ, conf)
    return replace(settings, cookie=cookie.find_cookie(os.environ, cookie_file))


def banner(settings: Settings, cookie: Path | None) -> str:
    """Return version, addresses, files and the way to stop, for a terminal; `cookie` is None where the
    environment holds the secret itself."""
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
