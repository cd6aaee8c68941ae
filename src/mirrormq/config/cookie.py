"""Cluster cookie: the secret that the nodes of one cluster share, read from the environment or from a file.

An absent file is created with 32 random bytes as hexadecimal and mode 0600. A file that other users may read
is refused, because a program that reads it can join the cluster.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from mirrormq.config.environment import state_directory
from mirrormq.config.secret_files import write_secret
from mirrormq.errors import ConfigurationError

COOKIE_BYTES = 32


def find_cookie(environment: Mapping[str, str], file: Path | None) -> str:
    """Return the cookie: of `file` if given, else of MIRRORMQ_COOKIE, else of the user's cookie file."""
    path = cookie_file(environment, file)
    return environment["MIRRORMQ_COOKIE"] if path is None else read_or_make(path)


def cookie_file(environment: Mapping[str, str], file: Path | None) -> Path | None:
    """Return the path of the cookie file; None if MIRRORMQ_COOKIE is the cookie itself."""
    if file is None and environment.get("MIRRORMQ_COOKIE"):
        return None
    if file is None and environment.get("MIRRORMQ_COOKIE_FILE"):
        file = Path(environment["MIRRORMQ_COOKIE_FILE"])
    return file or state_directory(environment) / "cookie"


def read_or_make(path: Path) -> str:
    """Return the content of a cookie file; create an absent one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_secret(path, secrets.token_hex(COOKIE_BYTES))
        return _read(path)
    except OSError as error:
        raise ConfigurationError(f"Cannot use the cookie file {path}: {error.strerror}.") from error


def _read(path: Path) -> str:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigurationError(f"Other users may read the cookie file {path}: run `chmod 600 {path}`.")
    cookie = path.read_text().strip()
    if not cookie:
        raise ConfigurationError(
            f"The cookie file {path} is empty: remove it, and the node creates a new one."
        )
    return cookie
