"""Links in TLS: certificates of one authority on both sides, and the cookie as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.errors import ConfigurationError
from mirrormq.runtime.certificate_files import CertificateFiles
from mirrormq.runtime.peer_setup import link_contexts
from tests.needs import OPENSSL
from tests.peers.ends import End, Ping, linked, started, until
from tests.tls import certificates
from tests.tls.certificates import Authority

pytestmark = pytest.mark.skipif(not certificates.available(), reason=OPENSSL)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("links"), "Link Authority")


def end(name: str, authority: Authority, signer: Authority | None = None, **options: bytes) -> End:
    pair = (signer or authority).issue(name, f"/CN={name}", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    return End(
        name, tls=link_contexts(CertificateFiles(*pair, authority=authority.pair.certificate)), **options
    )


async def test_a_link_runs_in_tls(authority: Authority) -> None:
    a, b = end("a@x", authority), end("b@x", authority)
    async with started(a, b):
        a.dial(b)
        b.dial(a)
        await until(lambda: linked(a, b))
        transport = a.links._links["b@x"]._transport
        assert transport is not None and transport.get_extra_info("ssl_object").version().startswith("TLSv1.")
        a.links.send("b@x", b"large" * 1_000_000)
        a.links.send("b@x", Ping(1))
        await until(lambda: len(b.of("message", "a@x")) == 2)
        assert b.of("message", "a@x") == [b"large" * 1_000_000, Ping(1)]
        await b.links.stop()
        await until(lambda: a.of("down", "b@x"))


async def test_a_certificate_does_not_replace_the_cookie(authority: Authority) -> None:
    a, b = end("a@x", authority), end("b@x", authority, cookie=b"wrong")
    async with started(a, b):
        b.dial(a)
        await until(lambda: a.log.having("the cookies differ"))
        assert a.links.peers == []


async def test_the_cookie_does_not_replace_a_certificate(authority: Authority, tmp_path: Path) -> None:
    a, plain = end("a@x", authority), End("b@x")
    foreign = end("c@x", authority, Authority(tmp_path / "foreign", "Foreign"))
    async with started(a, plain, foreign):
        plain.dial(a)
        foreign.dial(a)
        await until(lambda: plain.log.having("no link") and foreign.log.having("no link"))
        a.dial(foreign)
        await until(lambda: a.log.having("certificate verify failed"))
        assert a.links.peers == []


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="TLS files for links"):
        link_contexts(CertificateFiles(tmp_path / "none", tmp_path / "none"))
