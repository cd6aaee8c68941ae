"""One authority, a server's certificate and clients', for all tests of this package."""

from __future__ import annotations

import pytest

from tests.needs import OPENSSL
from tests.tls import certificates
from tests.tls.certificates import Authority, Pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if not certificates.available():
        pytest.skip(OPENSSL)
    return Authority(tmp_path_factory.mktemp("authority"), "Test Authority")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Authority:
    """Another authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "Another Authority")


@pytest.fixture(scope="session")
def server(authority: Authority) -> Pair:
    return authority.issue("server", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")


@pytest.fixture(scope="session")
def client(authority: Authority) -> Pair:
    subject = "/C=DE/ST=Berlin/L=Mitte/O=Example, Inc./OU=Ops+OU=Second/CN=rabbit client"
    names = "DNS:client.example,DNS:second.example,email:me@example.org,URI:urn:x:y"
    return authority.issue("client", subject, f"subjectAltName={names}")


def configuration(port: int, authority: Authority, server: Pair, **options: str) -> str:
    """A node with a TLS listener beside its plain one."""
    lines = {
        "listeners.ssl.1": f"127.0.0.1:{port}",
        "ssl_options.cacertfile": str(authority.pair.certificate),
        "ssl_options.certfile": str(server.certificate),
        "ssl_options.keyfile": str(server.key),
        "auth_mechanisms.1": "PLAIN",
        "auth_mechanisms.2": "EXTERNAL",
    } | {name.replace("__", "."): value for name, value in options.items()}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())
