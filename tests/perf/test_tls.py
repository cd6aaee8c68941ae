"""The load generator over amqps: it checks the broker's certificate and loses nothing in a TLS record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.perf.load_run import run
from mirrormq.perf.perf_options import PerfError, PerfOptions
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.needs import OPENSSL
from tests.tls import certificates
from tests.tls.certificates import Authority
from tests.tls.conftest import configuration


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The TLS address of a node without a query, and the query with the authority that knows it."""
    if not certificates.available():
        pytest.skip(OPENSSL)
    authority = Authority(tmp_path_factory.mktemp("authority"), "Test Authority")
    pair = authority.issue("server", "/CN=localhost", "subjectAltName=DNS:localhost")
    port = free_port()
    with MirrorMQ(configuration=configuration(port, authority, pair)):
        query = f"?cacertfile={authority.pair.certificate}&server_name_indication=localhost"
        yield f"amqps://guest:guest@127.0.0.1:{port}/%2F", query


@pytest.mark.parametrize("size", [100, 40_000])
def test_all_messages_pass_both_ways(place: tuple[str, str], size: int) -> None:
    """A body of 40,000 bytes takes three TLS records."""
    options = PerfOptions(
        uris=["".join(place)], messages=2000, size=size, prefetch=0, ack_every=1, timeout=60
    )
    report = run(options).as_dict()
    assert report["published"] == 2000
    assert report["consumed"] == 2000


def test_many_connections_send_to_themselves(place: tuple[str, str]) -> None:
    options = PerfOptions(uris=["".join(place)], mode="latency", connections=10, duration=1, warmup=0.1)
    assert run(options).consumed > 10


def test_a_certificate_without_a_user_is_refused_in_one_sentence(place: tuple[str, str]) -> None:
    uri, query = place
    with pytest.raises(PerfError, match=r"no TLS with 127.0.0.1:\d+: CERTIFICATE_VERIFY_FAILED"):
        run(PerfOptions(uris=[uri], messages=1))
    run(PerfOptions(uris=[f"{uri}?verify=verify_none"], messages=1))
    with pytest.raises(PerfError, match="files of the TLS options cannot be used"):
        run(PerfOptions(uris=[uri + query.replace("cacertfile=", "cacertfile=/nowhere")], messages=1))
