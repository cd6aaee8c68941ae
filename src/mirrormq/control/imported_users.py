"""User records from entries of a definitions file."""

from __future__ import annotations

import base64
import binascii
import os
from typing import Any

from mirrormq.auth import passwords
from mirrormq.metadata.records import User


def user_record(entry: dict[str, Any]) -> User:
    """Build a user record. Tags are a list, or comma-separated text in files of old RabbitMQ versions."""
    tags = entry.get("tags", [])
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    limits = dict(entry.get("limits") or {})
    if "password" in entry and "password_hash" not in entry:
        salt = os.urandom(passwords.salt_bytes())
        password_hash = passwords.hash_password(str(entry["password"]).encode(), salt)
        return User(entry["name"], password_hash, passwords.DEFAULT_ALGORITHM, tags, limits)
    algorithm = entry.get("hashing_algorithm", passwords.SHA256)
    password_hash = str(entry["password_hash"])
    if algorithm not in passwords.ALGORITHMS:
        raise ValueError(f"user '{entry['name']}' has the unknown hashing_algorithm '{algorithm}'")
    try:
        base64.b64decode(password_hash, validate=True)
    except binascii.Error:
        raise ValueError(f"the password_hash of user '{entry['name']}' is not base64") from None
    return User(entry["name"], password_hash, algorithm, tags, limits)
