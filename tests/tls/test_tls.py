"""TLS listeners: who gets in, with which versions, and whom a certificate speaks for."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator

import pika
import pytest
from pika.credentials import ExternalCredentials

from mirrormq.wire import methods
from mirrormq.wire.fields import table_of
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.hostile.raw import Ended, RawClient
from tests.tls.certificates import Authority, Pair, client_context
from tests.tls.conftest import configuration

DISTINGUISHED_NAME = r"CN=rabbit client,OU=Ops+OU=Second,O=Example\, Inc.,L=Mitte,ST=Berlin,C=DE"
"""As RabbitMQ 3.10.8 names the client of conftest.py."""


@contextlib.contextmanager
def tls_node(authority: Authority, server: Pair, **options: str) -> Iterator[tuple[MirrorMQ, int]]:
    port = free_port()
    with MirrorMQ(configuration=configuration(port, authority, server, **options)) as node:
        node.control("await_startup")
        yield node, port


def connect(port: int, context: ssl.SSLContext) -> RawClient:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    try:
        return RawClient(0, sock=context.wrap_socket(plain, server_hostname="localhost"))
    except BaseException:
        plain.close()
        raise


def external(client: RawClient) -> str:
    """Try to log in by certificate: the name of what the broker answers."""
    client.send(PROTOCOL_HEADER)
    assert b"EXTERNAL" in client.expect("ConnectionStart").mechanisms.split()
    properties = table_of({"capabilities": {"authentication_failure_close": True}})
    client.method(0, methods.encode_connection_start_ok(properties, "EXTERNAL", b"", "en_US"))
    return type(client.answer()).__name__


def refused(port: int, context: ssl.SSLContext) -> bool:
    """Whether the broker will not talk to this client; in TLS 1.3 it says so after the handshake only."""
    try:
        client = connect(port, context)
        client.send(PROTOCOL_HEADER)
        client.answer()
    except (ssl.SSLError, Ended, ConnectionError):
        return True
    client.close()
    return False


@pytest.fixture(scope="module")
def asking(authority: Authority, server: Pair) -> Iterator[tuple[MirrorMQ, int]]:
    """verify_peer without fail_if_no_peer_cert: certificates are looked at, and not needed."""
    with tls_node(authority, server, ssl_options__verify="verify_peer") as started:
        yield started


def test_pika_does_its_work_over_tls(asking: tuple[MirrorMQ, int], authority: Authority) -> None:
    node, port = asking
    options = pika.SSLOptions(client_context(authority), "localhost")
    with pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", port, ssl_options=options)
    ) as connection:
        channel = connection.channel()
        channel.queue_declare("tls")
        channel.confirm_delivery()
        body = b"secret" * 100_000
        channel.basic_publish("", "tls", body)
        assert channel.basic_get("tls", auto_ack=True)[2] == body
        assert "true" in node.control("list_connections", "ssl")
        channel.queue_delete("tls")


def test_verify_none_asks_for_no_certificate(authority: Authority, server: Pair, client: Pair) -> None:
    """As in RabbitMQ, a certificate that was not verified speaks for nobody."""
    with tls_node(authority, server, ssl_options__verify="verify_none") as (node, port):
        node.control("add_user", DISTINGUISHED_NAME, "unused password")
        assert external(connect(port, client_context(authority, client))) == "ConnectionClose"
        connect(port, client_context(authority)).log_in().close()


def test_a_certificate_that_is_required_must_be_there(
    authority: Authority, server: Pair, client: Pair
) -> None:
    options = {"ssl_options__verify": "verify_peer", "ssl_options__fail_if_no_peer_cert": "true"}
    with tls_node(authority, server, **options) as (_, port):
        assert refused(port, client_context(authority))
        assert not refused(port, client_context(authority, client))


def test_a_certificate_of_a_stranger_is_refused(
    asking: tuple[MirrorMQ, int], authority: Authority, stranger: Authority
) -> None:
    intruder = stranger.issue("intruder", "/CN=rabbit client")
    assert refused(asking[1], client_context(authority, intruder))
    assert not refused(asking[1], client_context(authority))


def test_the_broker_shows_its_own_certificate(asking: tuple[MirrorMQ, int], stranger: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(asking[1], client_context(stranger))


def test_without_a_certificate_external_is_refused(
    asking: tuple[MirrorMQ, int], authority: Authority
) -> None:
    assert external(connect(asking[1], client_context(authority))) == "ConnectionClose"


def test_external_is_not_offered_without_tls(asking: tuple[MirrorMQ, int]) -> None:
    plain = RawClient(asking[0].amqp_port)
    plain.send(PROTOCOL_HEADER)
    assert plain.expect("ConnectionStart").mechanisms == b"PLAIN"
    plain.close()


def test_the_distinguished_name_is_the_user(
    asking: tuple[MirrorMQ, int], authority: Authority, client: Pair
) -> None:
    node, port = asking
    assert external(connect(port, client_context(authority, client))) == "ConnectionClose", "no such user yet"
    node.control("add_user", DISTINGUISHED_NAME, "unused password")
    node.control("set_permissions", DISTINGUISHED_NAME, ".*", ".*", ".*")
    options = pika.SSLOptions(client_context(authority, client), "localhost")
    parameters = pika.ConnectionParameters(
        "127.0.0.1", port, ssl_options=options, credentials=ExternalCredentials()
    )
    with pika.BlockingConnection(parameters):
        assert DISTINGUISHED_NAME in node.control("list_connections", "user")


@pytest.mark.parametrize(
    ("options", "user"),
    [
        ({"ssl_cert_login_from": "common_name"}, "rabbit client"),
        ({"ssl_cert_login_from": "subject_alternative_name"}, "client.example"),
        (
            {"ssl_cert_login_from": "subject_alternative_name", "ssl_cert_login_san_index": "1"},
            "second.example",
        ),
        (
            {"ssl_cert_login_from": "subject_alternative_name", "ssl_cert_login_san_type": "email"},
            "me@example.org",
        ),
        ({"ssl_cert_login_from": "subject_alternative_name", "ssl_cert_login_san_type": "uri"}, "urn:x:y"),
    ],
)
def test_other_names_in_a_certificate(
    authority: Authority, server: Pair, client: Pair, options: dict[str, str], user: str
) -> None:
    with tls_node(authority, server, ssl_options__verify="verify_peer", **options) as (node, port):
        node.control("add_user", user, "unused password")
        assert external(connect(port, client_context(authority, client))) == "ConnectionTune"
        nameless = authority.issue("nameless", "/O=only")
        assert external(connect(port, client_context(authority, nameless))) == "ConnectionClose"


def test_versions_below_the_least_are_refused(authority: Authority, server: Pair) -> None:
    with tls_node(authority, server, ssl_options__versions__1="tlsv1.3") as (_, port):
        old = client_context(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            connect(port, old)
        connect(port, client_context(authority)).log_in().close()


def test_versions_above_the_most_are_not_used(authority: Authority, server: Pair) -> None:
    with tls_node(authority, server, ssl_options__versions__1="tlsv1.2") as (_, port):
        client = connect(port, client_context(authority))
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.version() == "TLSv1.2"
        client.log_in().close()


def test_a_plain_client_on_the_tls_port_is_dropped(asking: tuple[MirrorMQ, int]) -> None:
    client = RawClient(asking[1])
    client.send(PROTOCOL_HEADER)
    assert client.until_closed() < 4.5, "a handshake that does not end may take five seconds"
    client.close()


def test_a_tls_client_on_the_plain_port_gets_the_protocol_header(
    asking: tuple[MirrorMQ, int], authority: Authority
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(asking[0].amqp_port, client_context(authority))


def test_a_tls_handshake_that_does_not_end_is_dropped(authority: Authority, server: Pair) -> None:
    with tls_node(authority, server, ssl_handshake_timeout="1000") as (_, port):
        silent = RawClient(port)
        started = time.monotonic()
        silent.until_closed()
        assert time.monotonic() - started > 0.5
        silent.close()


def test_a_node_without_usable_certificates_says_so(authority: Authority, server: Pair) -> None:
    broken = Pair(server.certificate, authority.pair.key)
    with pytest.raises(RuntimeError, match="TLS files cannot be used"):
        MirrorMQ(configuration=configuration(free_port(), authority, broken)).start()


def test_a_slow_reader_over_tls_is_bounded_too(asking: tuple[MirrorMQ, int], authority: Authority) -> None:
    """The limits hold above TLS: requests stop being taken when the answers are not read."""
    client = connect(asking[1], client_context(authority)).log_in().open_channel()
    request = b"\x01\x00\x01\x00\x00\x00\x05\x00\x14\x00\x14\x01\xce"
    client.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        for _ in range(4000):
            client.socket.sendall(request * 1000)
    client.close()
