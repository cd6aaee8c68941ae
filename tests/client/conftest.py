"""Both brokers, plain and with TLS, for tests of the client's adapters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.brokers.rabbitmq import RabbitMQ
from tests.needs import OPENSSL, need_rabbitmq
from tests.tls import certificates
from tests.tls.certificates import Authority, Pair
from tests.tls.conftest import configuration


class Broker(NamedTuple):
    """A running broker, and what a client needs for TLS with it."""

    broker: MirrorMQ | RabbitMQ
    authority: Authority
    tls_port: int
    client_pair: Pair

    @property
    def uri(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.broker.amqp_port}"

    def tls_uri(self, login: str = "guest:guest@", **parameters: str) -> str:
        parameters.setdefault("cacertfile", str(self.authority.pair.certificate))
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"amqps://{login}127.0.0.1:{self.tls_port}?{query}"


@pytest.fixture(scope="session", params=["mirrormq", "rabbitmq"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not certificates.available():
        pytest.skip(OPENSSL)
    if request.param == "rabbitmq":
        need_rabbitmq()
    authority = Authority(tmp_path_factory.mktemp("authority"), "Test Authority")
    pair = authority.issue("server", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    client_pair = authority.issue("client", "/CN=guest")
    port = free_port()
    settings = configuration(
        port,
        authority,
        pair,
        ssl_options__verify="verify_peer",
        ssl_cert_login_from="common_name",
        auth_mechanisms__3="AMQPLAIN",
    )
    kind = RabbitMQ if request.param == "rabbitmq" else MirrorMQ
    with kind(configuration=settings) as running:
        yield Broker(running, authority, port, client_pair)
