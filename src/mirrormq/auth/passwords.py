"""Password hashes: RabbitMQ's, for imported users, and scrypt for new users.

RabbitMQ stores base64(salt + digest(salt + password)), four octets of salt and one round of a fast
hash: cheap to guess when stolen. New passwords are stored with scrypt. Its costs precede the salt:
they can be raised later without touching stored hashes:

    log2 of N (1 octet) | r (1) | p (1) | salt (16) | key (32)

A user without a hash, and the empty password, never match: RabbitMQ refuses both.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirrormq.metadata.records import User

SHA256 = "rabbit_password_hashing_sha256"
SHA512 = "rabbit_password_hashing_sha512"
MD5 = "rabbit_password_hashing_md5"
SCRYPT = "mirrormq_password_hashing_scrypt"

DEFAULT_ALGORITHM = SCRYPT

RABBIT_SALT_BYTES = 4
SCRYPT_SALT_BYTES = 16
"""Salt length of RFC 7914 and common advice."""

SCRYPT_LOG_N = 14
SCRYPT_R = 8
SCRYPT_P = 1
"""Costs that the author of RFC 7914 recommends for interactive logins: 16 MiB and some 40 ms a guess."""

SCRYPT_KEY_BYTES = 32
_SCRYPT_PREFIX_BYTES = 3
_SCRYPT_COSTS = bytes((SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P))
_SCRYPT_BASE64_BYTES = (_SCRYPT_PREFIX_BYTES + SCRYPT_SALT_BYTES + SCRYPT_KEY_BYTES) * 4 // 3
_SCRYPT_MEMORY_BYTES_MAX = 64 * 1024 * 1024
"""Memory limit, four times that of the costs above. A stored hash that requires more does not match."""

_DIGESTS: dict[str, Callable[[bytes], Any]] = {
    SHA256: hashlib.sha256,
    SHA512: hashlib.sha512,
    MD5: lambda data: hashlib.md5(data, usedforsecurity=False),
}

ALGORITHMS = frozenset({*_DIGESTS, SCRYPT})


@dataclass(frozen=True, slots=True, eq=False)
class PasswordCheck:
    """Login attempt: a password, its user, and the client that waits for the result."""

    password: bytes
    user: User
    """User record; a user that does not exist has no hash, and the check costs the same time."""
    host: str
    """Address of the client."""
    decided: Callable[[bool], None]
    overloaded: Callable[[], None]
    """Called instead of `decided` if too many checks of this address or user are pending."""
    wanted: Callable[[], bool]
    """Return False once the client has disconnected."""


def salt_bytes(algorithm: str = DEFAULT_ALGORITHM) -> int:
    """Return the salt length that `hash_password` requires."""
    return SCRYPT_SALT_BYTES if algorithm == SCRYPT else RABBIT_SALT_BYTES


def hash_password(password: bytes, salt: bytes, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """Return the stored form of a password; the caller provides a random salt."""
    if len(salt) != salt_bytes(algorithm):
        raise ValueError(f"{algorithm} needs {salt_bytes(algorithm)} octets of salt")
    if algorithm == SCRYPT:
        key = _scrypt(password, _SCRYPT_COSTS, salt)
        return base64.b64encode(_SCRYPT_COSTS + salt + key).decode()
    digest: bytes = _DIGESTS[algorithm](salt + password).digest()
    return base64.b64encode(salt + digest).decode()


def verify_password(password: bytes, password_hash: str, algorithm: str) -> bool:
    """Whether the password matches the hash; False for any hash that cannot be checked."""
    if not password or not password_hash or algorithm not in ALGORITHMS:
        return False
    try:
        stored = base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        return False
    if algorithm == SCRYPT:
        return _verify_scrypt(password, stored)
    salt, expected = stored[:RABBIT_SALT_BYTES], stored[RABBIT_SALT_BYTES:]
    found: bytes = _DIGESTS[algorithm](salt + password).digest()
    return hmac.compare_digest(found, expected)


def verify_login(password: bytes, password_hash: str, algorithm: str) -> bool:
    """Check a password at the cost of one scrypt for every wrong one.

    Otherwise the time of a refusal shows whether a user exists, and whether RabbitMQ made the hash.
    """
    if verify_password(password, password_hash, algorithm):
        return True
    if not (password and algorithm == SCRYPT and len(password_hash) == _SCRYPT_BASE64_BYTES):
        _scrypt(password, _SCRYPT_COSTS, bytes(SCRYPT_SALT_BYTES))
    return False


def _verify_scrypt(password: bytes, stored: bytes) -> bool:
    if len(stored) != _SCRYPT_PREFIX_BYTES + SCRYPT_SALT_BYTES + SCRYPT_KEY_BYTES:
        return False
    costs, rest = stored[:_SCRYPT_PREFIX_BYTES], stored[_SCRYPT_PREFIX_BYTES:]
    salt, expected = rest[:SCRYPT_SALT_BYTES], rest[SCRYPT_SALT_BYTES:]
    try:
        return hmac.compare_digest(_scrypt(password, costs, salt), expected)
    except (ValueError, OverflowError, MemoryError):
        return False


def _scrypt(password: bytes, costs: bytes, salt: bytes) -> bytes:
    log_n, r, p = costs
    if log_n > 20 or p > 16:
        raise ValueError("costs beyond what a login may take")
    return hashlib.scrypt(
        password,
        salt=salt,
        n=1 << log_n,
        r=r,
        p=p,
        maxmem=_SCRYPT_MEMORY_BYTES_MAX,
        dklen=SCRYPT_KEY_BYTES,
    )
