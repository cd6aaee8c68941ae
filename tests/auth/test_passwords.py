"""Passwords: hashes made by RabbitMQ 3.10.8 are accepted, new ones are scrypt, doubt means no."""

from __future__ import annotations

import base64

import pytest

from mirrormq.auth.passwords import MD5, SCRYPT, SHA256, SHA512, hash_password, salt_bytes, verify_password

MADE_BY_RABBITMQ = [
    ("guest", "pjywADns3G8C85LgGbSfLV1AudqWbV5viXsFwd13GVHY2HG6"),
    ("u", "mDdDcBDp8Av3K4612h4uzuj/QXSYnigEtezD/TxnakQBQyFZ"),
    ("secret", "i+JKHx0oXjzwvzSEKnQLW4j24tshGyDZjB5KgrJytY+xcQ4w"),
]


@pytest.mark.parametrize(("password", "stored"), MADE_BY_RABBITMQ)
def test_a_hash_made_by_rabbitmq_matches_its_password_only(password: str, stored: str) -> None:
    assert verify_password(password.encode(), stored, SHA256)
    assert not verify_password(password.encode() + b"x", stored, SHA256)
    assert not verify_password(password.encode(), stored, SHA512)


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5, SCRYPT])
def test_only_the_hashed_password_verifies(algorithm: str) -> None:
    salt = bytes(range(salt_bytes(algorithm)))
    stored = hash_password(b"s\xc3\xa9cret", salt, algorithm)
    assert salt in base64.b64decode(stored)
    assert verify_password(b"s\xc3\xa9cret", stored, algorithm)
    assert not verify_password(b"secret", stored, algorithm)


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5, SCRYPT])
@pytest.mark.parametrize("stored", ["", "AAAA", "AAAAAA==", "!!", "é", "A" * 1000])
def test_a_hash_that_is_none_never_matches(algorithm: str, stored: str) -> None:
    assert not verify_password(b"x", stored, algorithm)


def test_the_empty_password_never_matches() -> None:
    stored = hash_password(b"", bytes(4), SHA256)
    assert not verify_password(b"", stored, SHA256)


def test_an_unknown_algorithm_never_matches() -> None:
    assert not verify_password(b"x", hash_password(b"x", bytes(4), SHA256), "nope")


def test_a_stored_hash_cannot_ask_for_unbounded_work() -> None:
    stored = base64.b64encode(bytes((30, 255, 255)) + bytes(48)).decode()
    assert not verify_password(b"x", stored, SCRYPT)


def test_wrong_salt_is_refused() -> None:
    with pytest.raises(ValueError, match="16 octets"):
        hash_password(b"x", b"short")
