"""API over TLS, configured as in RabbitMQ."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirrormq.cli import ctl
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.management.conftest import managed
from tests.management.http import Client
from tests.needs import OPENSSL
from tests.tls.certificates import Authority, Pair, available, client_context

LOGIN = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if not available():
        pytest.skip(OPENSSL)
    return Authority(tmp_path_factory.mktemp("authority"), "Test Authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.issue("server", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")


def _get(port: int, path: str, context: ssl.SSLContext) -> Any:
    request = urllib.request.Request(f"https://127.0.0.1:{port}/api/{path}", headers=LOGIN)
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return json.load(answer)


def _settings(prefix: str, authority: Authority, server: Pair, **more: str) -> str:
    lines = {
        "certfile": str(server.certificate),
        "keyfile": str(server.key),
        "cacertfile": str(authority.pair.certificate),
        **more,
    }
    return "".join(f"{prefix}.{name} = {value}\n" for name, value in lines.items())


@pytest.fixture(scope="module")
def secured(authority: Authority, server: Pair) -> Iterator[tuple[MirrorMQ, int]]:
    port = free_port()
    settings = _settings("management.ssl", authority, server, ip="127.0.0.1", port=str(port))
    with managed(settings + "management.ssl.versions.1 = tlsv1.3\n") as broker:
        yield broker, port


def test_the_api_answers_over_tls(secured: tuple[MirrorMQ, int], authority: Authority) -> None:
    broker, port = secured
    assert _get(port, "whoami", client_context(authority))["name"] == "guest"
    assert Client(broker.management_port).get("whoami")["name"] == "guest"


def test_the_listener_is_shown(secured: tuple[MirrorMQ, int], authority: Authority) -> None:
    broker, port = secured
    overview = _get(port, "overview", client_context(authority))
    found = {(each["protocol"], each["port"]) for each in overview["listeners"]}
    assert {("https", port), ("http", broker.management_port)} <= found
    assert {each["port"]: each.get("ssl") for each in overview["contexts"]}[str(port)] == "true"


def test_certificates_that_expire_soon_fail_the_checks(
    secured: tuple[MirrorMQ, int], authority: Authority, server: Pair
) -> None:
    """Check certificates that are valid for two days; RabbitMQ shows the same fields."""
    broker, port = secured
    client = Client(broker.management_port)
    assert client.get("health/checks/certificate-expiration/1/days") == {"status": "ok"}
    answer = client.request("GET", "health/checks/certificate-expiration/1/weeks")
    assert (answer.status, answer.json["reason"]) == (503, "Certificates expiring")
    (expired,) = answer.json["expired"]
    for file in "certfile", "cacertfile":  # issued in one second, or in two
        (until,) = expired.pop(f"{file}_expires_on")
        assert 0 < (datetime.fromisoformat(f"{until}+00:00") - datetime.now(UTC)).total_seconds() < 2 * 86400
    assert expired == {
        "node": broker.node_name, "protocol": "https", "interface": "127.0.0.1", "port": port,
        "certfile": str(server.certificate), "cacertfile": str(authority.pair.certificate),
    }  # fmt: skip
    said = broker.control("check_certificate_expiration", "--within", "1", "--unit", "days")
    assert said == "No certificates are expiring within 1 day.\n"
    with pytest.raises(RuntimeError, match="certfile_expires_on"):
        broker.control("check_certificate_expiration", "--within", "1", "--unit", "weeks")


def test_mirrormqctl_trusts_an_authority_that_the_environment_names(
    secured: tuple[MirrorMQ, int], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"https://guest:guest@127.0.0.1:{secured[1]}"
    assert ctl.run(["-q", "--uri", uri, "list_users"]) == 69
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pair.certificate))
    assert ctl.run(["-q", "--uri", uri, "list_users"]) == 0


def test_older_versions_are_refused_if_so_configured(
    secured: tuple[MirrorMQ, int], authority: Authority
) -> None:
    context = client_context(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(urllib.error.URLError):
        _get(secured[1], "whoami", context)


def test_a_client_certificate_can_be_demanded(authority: Authority, server: Pair) -> None:
    port = free_port()
    settings = _settings(
        "management.ssl", authority, server, ip="127.0.0.1", port=str(port), verify="verify_peer",
        fail_if_no_peer_cert="true",
    )  # fmt: skip
    client = authority.issue("client", "/CN=somebody")
    with managed(settings):
        assert _get(port, "whoami", client_context(authority, client))["name"] == "guest"
        with pytest.raises((urllib.error.URLError, ConnectionError, ssl.SSLError)):
            _get(port, "whoami", client_context(authority))


def test_the_old_way_to_configure_it(authority: Authority, server: Pair, tmp_path: Path) -> None:
    from mirrormq.config.settings import Address
    from mirrormq.config.settings_loader import load_settings

    conf = tmp_path / "node.conf"
    conf.write_text(
        "management.listener.port = 15671\nmanagement.listener.ip = 127.0.0.1\n"
        "management.listener.ssl = true\n" + _settings("management.listener.ssl_opts", authority, server)
    )
    settings = load_settings([], {}, conf)
    assert settings.management_listener is None
    assert settings.management_tls_listener == Address("127.0.0.1", 15671)
    assert settings.management_tls.certfile == server.certificate
