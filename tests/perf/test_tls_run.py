"""The generator over TLS: decrypted bytes that no selector tells of are read, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mirrormq.perf import load_run
from mirrormq.perf.load_run import run
from mirrormq.perf.perf_options import PerfError, PerfOptions
from mirrormq.perf.perf_report import PerfReport
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.needs import OPENSSL
from tests.tls import certificates
from tests.tls.certificates import Authority
from tests.tls.conftest import configuration

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not certificates.available():
        pytest.skip(OPENSSL)
    authority = Authority(tmp_path_factory.mktemp("authority"), "Test Authority")
    pair = authority.issue("server", "/CN=localhost", "subjectAltName=IP:127.0.0.1")
    port = free_port()
    with MirrorMQ(configuration=configuration(port, authority, pair)):
        yield f"amqps://127.0.0.1:{port}?cacertfile={authority.pair.certificate}"


@pytest.mark.parametrize("vary", [False, True])
def test_every_message_comes_back_over_tls(uri: str, vary: bool) -> None:
    queue = f"tls-{vary}"
    assert run(PerfOptions([uri], "publish", queue, messages=20_000, vary=vary)).confirmed == 20_000
    # Auto-ack: the broker sends all of it at once, so reads end in the middle of TLS records.
    consumed = run(PerfOptions([uri], "consume", queue, messages=20_000, vary=vary, auto_ack=True)).consumed
    assert consumed == 20_000


def test_a_record_larger_than_the_buffer_is_read_to_its_end(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(PerfOptions([uri], "publish", "tls-records", messages=5_000))
    monkeypatch.setattr(load_run, "room_for", lambda body_bytes, *, one: 2048)
    reports: list[PerfReport] = []
    options = PerfOptions([uri], "consume", "tls-records", messages=5_000, auto_ack=True)
    thread = threading.Thread(target=lambda: reports.append(run(options)), daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert reports and reports[0].consumed == 5_000


def test_large_bodies_over_tls(uri: str) -> None:
    assert run(PerfOptions([uri], "both", "tls-large", size=300_000, messages=40)).consumed == 40


def test_many_connections_over_tls(uri: str) -> None:
    assert run(PerfOptions([uri], "latency", connections=10, duration=1.0, warmup=0.1)).consumed > 10


def test_an_unknown_authority_is_one_sentence(uri: str) -> None:
    with pytest.raises(PerfError, match="no TLS with"):
        run(PerfOptions([uri.partition("?")[0]], "publish", messages=1))
