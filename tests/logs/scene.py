"""Things that RabbitMQ logs, done to a broker; and its lines, without what differs from run to run."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from typing import Any

import pika

from tests.management.http import Client

Line = tuple[str, str, str]
"""Level, domain, text."""

VARYING = (
    (re.compile(r"<[^ <>]+\.\d+>"), "<pid>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "address"),
    (re.compile(r" on node [\w.-]+@[\w.-]+"), " on node NODE"),
)


def act(amqp_port: int, management_port: int) -> None:
    """Clients that do it right and wrong, and an operator."""
    _client(amqp_port)
    _strangers(amqp_port)
    operator = Client(management_port)
    assert operator.put("vhosts/v1", {}).status == 201
    assert operator.put("users/u1", {"password": "p", "tags": ""}).status == 201
    rights = {"configure": "^c", "write": "^w", "read": "^r"}
    assert operator.put("permissions/v1/u1", rights).status == 201
    policy = {"pattern": "^q", "definition": {"max-length": 10}, "apply-to": "queues"}
    assert operator.put("policies/v1/short", policy).status == 201
    assert operator.delete("users/u1").status == 204
    assert operator.delete("vhosts/v1").status == 204


def _client(port: int) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    parameters.client_properties = {"connection_name": "a client"}
    connection = pika.BlockingConnection(parameters)
    with contextlib.suppress(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("absent", passive=True)
    connection.close()


def _strangers(port: int) -> None:
    for changed in ({"credentials": pika.PlainCredentials("guest", "wrong")}, {"virtual_host": "none"}):
        with contextlib.suppress(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, **changed))
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        stranger.recv(100)
    socket.create_connection(("127.0.0.1", port)).close()


def lines_of(text: str) -> list[dict[str, Any]]:
    """The lines of a log in JSON; other output is left out."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def shown(line: dict[str, Any]) -> Line:
    message = str(line["msg"])
    for pattern, instead in VARYING:
        message = pattern.sub(instead, message)
    return line["level"], line.get("domain", ""), message
