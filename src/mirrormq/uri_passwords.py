"""Passwords in URIs, hidden wherever a text is only read."""

from __future__ import annotations

import re

MASK = "******"

_PASSWORDS = re.compile(r"(?<=://)([^:/?#]*:).+(?=@)|([?&]password=)[^&#]+", re.DOTALL)
"""A password of an invalid URI may have any characters, so the login ends with the last @."""


def masked_uri(uri: str) -> str:
    """Return a URI, valid or not, with its passwords replaced. Other texts stay as they are."""
    return _PASSWORDS.sub(lambda found: f"{found[1] or found[2]}{MASK}", uri)
