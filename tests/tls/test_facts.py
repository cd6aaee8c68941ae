"""TLS facts that operators see: the cipher suite, and the subject of the client's certificate."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator

import pika
import pytest

from mirrormq.runtime.tls_facts import CipherSuite, suite_of
from tests.brokers.mirrormq import MirrorMQ
from tests.tls.certificates import Authority, Pair, client_context
from tests.tls.test_tls import DISTINGUISHED_NAME, tls_node

COLUMNS = (
    "ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer",
)  # fmt: skip


@pytest.fixture(scope="module")
def node(authority: Authority, server: Pair) -> Iterator[tuple[MirrorMQ, int]]:
    options = {"ssl_options__verify": "verify_peer", "ssl_options__fail_if_no_peer_cert": "false"}
    with tls_node(authority, server, **options) as found:
        yield found


@pytest.mark.parametrize(
    ("newest", "ciphers", "shown"),
    [
        (ssl.TLSVersion.TLSv1_3, "", ["tlsv1.3", "any", "aes_256_gcm", "aead"]),
        (ssl.TLSVersion.TLSv1_2, "", ["tlsv1.2", "ecdhe_ecdsa", "aes_256_gcm", "aead"]),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305",
         ["tlsv1.2", "ecdhe_ecdsa", "chacha20_poly1305", "aead"]),
    ],
)  # fmt: skip
def test_the_agreed_tls_parameters_are_shown_as_in_rabbitmq(
    node: tuple[MirrorMQ, int], authority: Authority, client: Pair, newest: ssl.TLSVersion, ciphers: str,
    shown: list[str],
) -> None:  # fmt: skip
    """The values are those that RabbitMQ 3.10.8 showed of the same clients."""
    broker, port = node
    context = client_context(authority, client)
    context.maximum_version = newest
    if ciphers:
        context.set_ciphers(ciphers)
    options = pika.SSLOptions(context, "localhost")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, ssl_options=options)):
        (row,) = json.loads(
            broker.control("list_connections", *COLUMNS, "peer_cert_validity", "--formatter", "json")
        )
    since, until = row.pop("peer_cert_validity").split(" - ")
    assert list(row.values()) == [*shown, DISTINGUISHED_NAME, "CN=Test Authority"]
    assert since < until and len(since) == len("2026-11-16T06:44:10Z")


def test_a_client_without_a_certificate_has_no_user(node: tuple[MirrorMQ, int], authority: Authority) -> None:
    broker, port = node
    options = pika.SSLOptions(client_context(authority), "localhost")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, ssl_options=options)):
        (row,) = json.loads(broker.control("list_connections", *COLUMNS, "--formatter", "json"))
    assert list(row.values()) == ["tlsv1.3", "any", "aes_256_gcm", "aead", "", ""]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite("any", "chacha20_poly1305", "aead")),
        ("ECDHE-ECDSA-AES256-SHA384", CipherSuite("ecdhe_ecdsa", "aes_256_cbc", "sha384")),
        ("ECDHE-ECDSA-AES128-CCM8", CipherSuite("ecdhe_ecdsa", "aes_128_ccm_8", "aead")),
        ("DHE-RSA-AES128-GCM-SHA256", CipherSuite("dhe_rsa", "aes_128_gcm", "aead")),
        ("AES256-SHA", CipherSuite("rsa", "aes_256_cbc", "sha")),
    ],
)
def test_a_suites_name_is_taken_apart(name: str, parts: CipherSuite) -> None:
    assert suite_of(name) == parts
