"""The client checks the broker's certificate, and speaks TLS for everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.ranges import range_protocol
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.spark_connection import SparkConnection
from mirrormq.spark.data_source_options import sink_options
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.needs import OPENSSL
from tests.tls import certificates
from tests.tls.certificates import Authority
from tests.tls.conftest import configuration


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A node's TLS address, and the file of the authority that knows it."""
    if not certificates.available():
        pytest.skip(OPENSSL)
    authority = Authority(tmp_path_factory.mktemp("authority"), "Test Authority")
    pair = authority.issue("server", "/CN=localhost", "subjectAltName=DNS:localhost")
    port = free_port()
    with MirrorMQ(configuration=configuration(port, authority, pair)):
        yield f"amqps://guest:guest@127.0.0.1:{port}", authority.pair.certificate


def test_a_broker_one_trusts_is_talked_to(node: tuple[str, Path]) -> None:
    uri, authority = node
    options = sink_options({"uri": uri, "tlsCaFile": str(authority), "tlsServerName": "localhost"})
    with RangeClient(Nodes(options.addresses, patience_s=0)) as range_client:
        assert range_client.ask(range_protocol.queues()).headers["node"] == "mirror1@localhost"


def test_a_broker_one_does_not_trust_is_not(node: tuple[str, Path]) -> None:
    uri, authority = node
    for more in ({}, {"tlsCaFile": str(authority)}):
        (address,) = sink_options({"uri": uri, **more}).addresses
        with pytest.raises(ConnectionLost, match="no TLS with"):
            SparkConnection(address)
    (address,) = sink_options({"uri": uri, "tlsCaFile": "nowhere.pem"}).addresses
    with pytest.raises(BrokerError, match="the files of the TLS options cannot be used"):
        SparkConnection(address)
    (address,) = sink_options({"uri": uri, "tlsVerify": "false"}).addresses
    SparkConnection(address).close()
