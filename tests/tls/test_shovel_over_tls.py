"""Static shovel whose URI has TLS options: it verifies the broker, and says why it does not trust one."""

from __future__ import annotations

from typing import Any

from tests.bridge_processes.broker_messages import drain, publish
from tests.brokers.ports import free_ports
from tests.management.conftest import managed
from tests.management.http import Client
from tests.tls.certificates import Authority, Pair
from tests.tls.conftest import configuration
from tests.waiting import until

SHOVEL = """
shovel.{name}.src-uri = amqp://
shovel.{name}.src-queue = from-{name}
shovel.{name}.dest-uri = amqps://guest:guest@localhost:{port}/%2F?cacertfile={authority}&verify=verify_peer&certfile={certificate}&keyfile={key}
shovel.{name}.dest-queue = to
shovel.{name}.reconnect-delay = 0.2
"""


def test_a_static_shovel_speaks_tls_and_trusts_its_authority_only(
    authority: Authority, stranger: Authority, server: Pair, client: Pair
) -> None:
    (port,) = free_ports(1)
    files = {"port": port, "certificate": client.certificate, "key": client.key}
    text = SHOVEL.format(name="trusts", authority=authority.pair.certificate, **files)
    text += SHOVEL.format(name="doubts", authority=stranger.pair.certificate, **files)
    options = {"ssl_options__verify": "verify_peer", "ssl_options__fail_if_no_peer_cert": "true"}
    with managed(configuration(port, authority, server, **options)) as far, managed(text) as near:
        publish(near.amqp_port, "from-trusts", ["one", "two"])
        api = Client(near.management_port)

        def row(name: str) -> dict[str, Any]:
            return next((each for each in api.get("shovels") if each["name"] == name), {})

        until(lambda: row("trusts").get("forwarded") == 2, lambda: str(row("trusts")))
        assert [body for body, _ in drain(far.amqp_port, "to")] == ["one", "two"]
        assert row("trusts")["dest_uri"] == f"amqps://localhost:{port}/%2F"
        until(
            lambda: "CERTIFICATE_VERIFY_FAILED" in row("doubts").get("reason", ""), lambda: str(row("doubts"))
        )
        assert row("doubts")["state"] == "terminated"
