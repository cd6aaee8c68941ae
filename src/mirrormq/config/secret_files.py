"""Secret files: written atomically, readable by their owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from mirrormq.errors import ConfigurationError

PASSWORD_BYTES = 18
"""Random bytes of a password: 144 bits, 24 characters that need no quotes in a shell or a URI."""


def write_secret(path: Path, text: str) -> None:
    """Create the file with mode 0600, unless another process has created it meanwhile. A reader never sees a
    partial file."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w") as made:
            made.write(text)
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()


def read_or_make_password(path: Path) -> str:
    """Return the password in a file; create an absent file with a random password.

    Unlike a cookie file it may be readable by other users: container platforms mount secrets that way.
    """
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_secret(path, secrets.token_urlsafe(PASSWORD_BYTES) + "\n")
        password = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"Cannot use default_pass_file {path}: {reason}.") from error
    if not password:
        raise ConfigurationError(
            f"default_pass_file {path} is empty: remove it, and the node creates a new one."
        )
    return password
