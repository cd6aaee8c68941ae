"""TLS passthrough of `mirrormq haproxy-config`: certificates stay on the nodes, EXTERNAL logins work."""

from __future__ import annotations

import csv
from pathlib import Path

import pika
import requests
from pika.credentials import ExternalCredentials

from tests.brokers.ports import free_ports
from tests.cli.test_balancing import haproxy, mirrormq, wait_for
from tests.management.conftest import managed
from tests.tls.certificates import Authority, Pair, client_context
from tests.tls.conftest import configuration


def test_a_client_certificate_logs_in_through_the_proxy(
    authority: Authority, server: Pair, client: Pair, tmp_path: Path
) -> None:
    node_port, proxy_port, plain_port, statistics_port = free_ports(4)
    options = {"ssl_options__verify": "verify_peer", "ssl_cert_login_from": "common_name"}
    with managed(configuration(node_port, authority, server, **options)) as node:
        node.control("add_user", "rabbit client", "unused password")
        node.control("set_permissions", "rabbit client", ".*", ".*", ".*")
        text = mirrormq(
            "haproxy-config", f"127.0.0.1:{node.amqp_port}", "--bind", f"127.0.0.1:{plain_port}",
            "--tls", f"127.0.0.1:{node_port}", "--tls-bind", f"127.0.0.1:{proxy_port}",
            "--statistics-bind", f"127.0.0.1:{statistics_port}",
        ).stdout  # fmt: skip
        with haproxy(text, proxy_port, tmp_path):
            parameters = pika.ConnectionParameters(
                "127.0.0.1", proxy_port, credentials=ExternalCredentials(),
                ssl_options=pika.SSLOptions(client_context(authority, client), "localhost"),
            )  # fmt: skip
            with pika.BlockingConnection(parameters):
                assert "rabbit client" in node.control("list_connections", "user")
            # L7OK: the check spoke AMQP through TLS, and the node replied.
            wait_for(lambda: check_of(statistics_port) == "L7OK", "the check of the TLS listener fails")


def check_of(statistics_port: int) -> str:
    """Return the state of the check of the TLS server, as HAProxy's statistics page reports it."""
    text = requests.get(f"http://127.0.0.1:{statistics_port}/;csv", timeout=30).text
    rows = csv.DictReader(text.removeprefix("# ").splitlines())
    return next(row["check_status"] for row in rows if (row["pxname"], row["svname"]) == ("amqps", "node1"))
