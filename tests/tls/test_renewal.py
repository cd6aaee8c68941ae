"""Certificates that are replaced in their files are shown from the next handshake on."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrormq.runtime.certificate_files import CertificateFiles, RenewedCertificates
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_ports
from tests.needs import OPENSSL
from tests.tls.certificates import Authority, Pair, available
from tests.waiting import until

pytestmark = pytest.mark.skipif(not available(), reason=OPENSSL)


class Log:
    """Notes how it was spoken to."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, text: str, **more: Any) -> None:
        self.said.append("renewed")

    def warning(self, text: str, **more: Any) -> None:
        self.said.append("refused")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority", "ours")


def shown(context: ssl.SSLContext, authority: Authority) -> str:
    """The name in the certificate that a server with this context shows."""
    trusting = ssl.create_default_context(cafile=str(authority.pair.certificate))
    trusting.check_hostname = False
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(received, sent, server_side=True)
    client = trusting.wrap_bio(sent, received)
    for _ in range(3):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return common_name(client.getpeercert())


def common_name(certificate: Any) -> str:
    return str(dict(part[0] for part in certificate["subject"])["commonName"])


def test_a_pair_is_taken_when_both_of_its_files_are_new(authority: Authority) -> None:
    old, new = authority.issue("used", "/CN=old"), authority.issue("made", "/CN=new")
    files, log = CertificateFiles(*old), Log()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files.load(context)
    renewed = RenewedCertificates(log)
    renewed.watch(context, files)
    renewed.reload_changed()
    assert (shown(context, authority), log.said) == ("old", [])
    old.certificate.write_bytes(new.certificate.read_bytes())
    renewed.reload_changed()
    renewed.reload_changed()
    assert (shown(context, authority), log.said) == ("old", ["refused"])
    old.key.write_bytes(new.key.read_bytes())
    renewed.reload_changed()
    assert (shown(context, authority), log.said) == ("new", ["refused", "renewed"])
    old.key.unlink()
    renewed.reload_changed()
    assert shown(context, authority) == "new"


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("node", "/CN=old", "subjectAltName=DNS:localhost")


@pytest.fixture
def port(pair: Pair) -> Iterator[int]:
    """Of a node's listener with that certificate."""
    (port,) = free_ports(1)
    conf = f"listeners.ssl.default = 127.0.0.1:{port}\nssl_options.certfile = {pair.certificate}\n"
    with MirrorMQ(configuration=f"{conf}ssl_options.keyfile = {pair.key}\n"):
        yield port


def test_a_node_shows_its_new_certificate_without_a_restart(
    authority: Authority, pair: Pair, port: int
) -> None:
    trusting = ssl.create_default_context(cafile=str(authority.pair.certificate))

    def name() -> str:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            with trusting.wrap_socket(plain, server_hostname="localhost") as client:
                return common_name(client.getpeercert())

    assert name() == "old"
    authority.issue("node", "/CN=new", "subjectAltName=DNS:localhost")
    until(lambda: name() == "new", "the new certificate")
