"""Facts about a TLS connection: the agreed cipher suite and the client certificate, as RabbitMQ shows
them.

OpenSSL names a suite in one word, Erlang splits it:

    TLS_AES_256_GCM_SHA384         any, aes_256_gcm, aead            (TLS 1.3: any key exchange)
    ECDHE-RSA-AES128-GCM-SHA256    ecdhe_rsa, aes_128_gcm, aead
    ECDHE-ECDSA-AES256-SHA384      ecdhe_ecdsa, aes_256_cbc, sha384
    AES256-SHA                     rsa, aes_256_cbc, sha
"""

from __future__ import annotations

import asyncio
import re
import ssl
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mirrormq.auth.client_peer import NO_TLS, TlsFacts
from mirrormq.runtime.tls import distinguished_name

TLS_1_3 = re.compile(r"TLS_(?P<cipher>\w+)_SHA\d+")
EXCHANGES = ("ECDHE-ECDSA", "ECDHE-RSA", "DHE-RSA", "DHE-DSS", "ECDHE-PSK", "DHE-PSK", "RSA-PSK", "PSK")
AES = re.compile(r"AES(?P<bits>128|256)(-(?P<mode>GCM|CCM8?))?")
CHACHA = "CHACHA20-POLY1305"
AUTHENTICATED = "aead"
"""Authenticated encryption: the cipher itself detects changes, without a separate hash."""


class CipherSuite(NamedTuple):
    """Parts of a cipher suite."""

    key_exchange: str
    cipher: str
    hash: str


def suite_of(name: str) -> CipherSuite:
    """Return the parts of a suite from OpenSSL's name."""
    if match := TLS_1_3.fullmatch(name):
        return CipherSuite("any", match["cipher"].lower(), AUTHENTICATED)
    exchange = next((each for each in EXCHANGES if name.startswith(f"{each}-")), "")
    rest = name.removeprefix(f"{exchange}-") if exchange else name
    key_exchange = exchange.lower().replace("-", "_") or "rsa"
    if rest.startswith(CHACHA):
        return CipherSuite(key_exchange, CHACHA.lower().replace("-", "_"), AUTHENTICATED)
    aes = AES.match(rest)
    if aes is None:
        return CipherSuite(key_exchange, rest.lower(), "")
    if aes["mode"]:
        return CipherSuite(key_exchange, f"aes_{aes['bits']}_{_mode(aes['mode'])}", AUTHENTICATED)
    return CipherSuite(key_exchange, f"aes_{aes['bits']}_cbc", rest[aes.end() :].strip("-").lower())


def _mode(mode: str) -> str:
    return "ccm_8" if mode == "CCM8" else mode.lower()


def tls_facts(transport: asyncio.BaseTransport) -> TlsFacts:
    """Return the facts of a connection with a completed TLS handshake."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    agreed = tls.cipher() if tls is not None else None
    if tls is None or agreed is None:
        return NO_TLS
    suite, certificate = suite_of(agreed[0]), tls.getpeercert()
    facts = TlsFacts((tls.version() or "").lower(), suite.key_exchange, suite.cipher, suite.hash)
    return facts._replace(**_certificate_facts(certificate)) if certificate else facts


def _certificate_facts(certificate: dict[str, Any]) -> dict[str, str]:
    return {
        "peer_cert_issuer": distinguished_name(certificate["issuer"]),
        "peer_cert_subject": distinguished_name(certificate["subject"]),
        "peer_cert_validity": f"{_iso_time(certificate['notBefore'])} - {_iso_time(certificate['notAfter'])}",
    }


def _iso_time(text: str) -> str:
    """Convert `Nov  4 10:00:00 2026 GMT` to ISO 8601, which sorts by time."""
    return f"{datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC):%Y-%m-%dT%H:%M:%SZ}"
