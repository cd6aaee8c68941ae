"""Hostile requests: each gets a reply, has no other effect, and the node stays healthy."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client

DEEP = b'{"arguments": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NESTED = b'{"arguments": ' + b'{"a": ' * 600 + b"1" + b"}" * 600 + b"}"

BODIES: list[tuple[str, str, Any]] = [
    ("PUT", "queues/%2F/bad", DEEP),
    ("PUT", "queues/%2F/bad", NESTED),
    ("PUT", "queues/%2F/" + "n" * 300, b"{}"),
    ("PUT", "exchanges/%2F/" + "n" * 300, b'{"type": "direct"}'),
    ("PUT", "exchanges/%2F/bad", b'{"type": ["direct"]}'),
    ("PUT", "queues/%2F/bad", json.dumps({"arguments": {"x-max-length": 2**70}}).encode()),
    ("PUT", "queues/%2F/bad", json.dumps({"arguments": {"k" * 300: 1}}).encode()),
    ("POST", "bindings/%2F/e/amq.direct/q/target", json.dumps({"routing_key": "k" * 300}).encode()),
    ("POST", "queues/%2F/target/get", b'{"count": true, "ackmode": "ack_requeue_true", "encoding": "auto"}'),
    ("POST", "users/bulk-delete", b'{"users": "guest"}'),
    ("POST", "definitions", b'{"users": [{"name": 5}]}'),
    ("POST", "definitions", b'{"queues": [5]}'),
    ("POST", "definitions", b'{"bindings": [{"vhost": "/", "source": [], "destination_type": "queue"}]}'),
    ("PUT", "users/bad", b'{"tags": "", "hashing_algorithm": "none", "password_hash": "AAAA"}'),
    ("PUT", "permissions/%2F/guest", b'{"configure": 5, "write": "", "read": ""}'),
    ("PUT", "policies/%2F/bad", b'{"pattern": 5, "definition": 5}'),
    ("PUT", "policies/%2F/bad", b'{"pattern": "(a+)+$(", "definition": {"max-length": 1}}'),
    ("PUT", "queues/%2F/bad", b"\xff\xfe"),
    ("POST", "users/bulk-delete", b'{"users": [{}]}'),
    ("PUT", "users/bad", b'{"tags": 5, "password_hash": ""}'),
    ("PUT", "users/bad", b'{"tags": "", "hashing_algorithm": [], "password_hash": "AAAA"}'),
    ("PUT", "vhosts/bad", b'{"tags": [1]}'),
    ("POST", "queues/%2F/target/get", b'{"count": 1, "ackmode": [], "encoding": "auto"}'),
    ("POST", "definitions", b'{"queues": [{"name": "x", "vhost": []}]}'),
    ("POST", "definitions", b'{"queues": [{"name": [], "vhost": "/"}]}'),
    ("POST", "definitions", b'{"vhosts": [{"name": "bad", "limits": {"max-queues": "x"}}]}'),
    ("POST", "definitions", b'{"vhosts": [{"name": "bad", "description": 5}]}'),
    ("POST", "definitions", b'{"users": [{"name": "bad", "password_hash": "", "tags": [5]}]}'),
    (
        "POST",
        "definitions",
        b'{"permissions": [{"user": "guest", "vhost": "/", "configure": null, "write": "", "read": ""}]}',
    ),
    ("POST", "definitions", b'{"global_parameters": [{"name": [], "value": 1}]}'),
]
"""Bodies that are the sender's mistake."""

ABSENT = [
    ("GET", "nodes/bad"),
    ("GET", "connections/bad/channels"),
    ("DELETE", "user-limits/bad/max-channels"),
    ("POST", "queues/%2F/bad/actions"),
]
"""Names of missing objects, at which RabbitMQ's handlers crash."""

PROPERTIES: list[Any] = [
    {"priority": 300},
    {"priority": -1},
    {"delivery_mode": True},
    {"headers": 5},
    {"headers": {"a": 2**70}},
    {"timestamp": -1},
    {"message_id": "m" * 300},
    {"content_type": 5},
    {"expiration": "-1"},
    {"user_id": "somebody"},
]


@pytest.fixture(autouse=True)
def healthy_afterwards(node: MirrorMQ, client: Client) -> Any:
    """Check that nothing was declared and no internal error was logged."""
    client.put("queues/%2F/target", {})
    before, written = client.get("definitions"), len(node.output)
    yield
    assert client.get("definitions") == before
    assert "unexpected error" not in node.output[written:]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_bad_body_is_a_bad_request(number: int, client: Client) -> None:
    method, path, body = BODIES[number]
    answer = client.request(method, path, raw=body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request"), answer


@pytest.mark.parametrize(("method", "path"), ABSENT)
def test_an_absent_object_is_not_found(method: str, path: str, client: Client) -> None:
    assert client.request(method, path, {"action": "sync"}).status == 404


@pytest.mark.parametrize("redirect", [b"/\nSet-Cookie: a=b", b"/\r\n\r\n<script>", b"\xff", b"\0"])
def test_a_form_does_not_write_headers(redirect: bytes, client: Client) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    body = form % (b"file", b"{}") + form % (b"redirect", redirect) + b"--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = client.request("POST", "definitions", raw=body, headers=headers)
    assert answer.status == 400


@pytest.mark.parametrize("properties", PROPERTIES, ids=json.dumps)
def test_properties_that_cannot_be_sent_are_a_bad_request(properties: Any, client: Client) -> None:
    body = {"properties": properties, "routing_key": "target", "payload": "", "payload_encoding": "string"}
    answer = client.post("exchanges/%2F/amq.default/publish", body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request"), answer


@pytest.mark.parametrize(
    "query",
    [
        "sort=name.deeper.still",
        "sort=",
        "columns=,,",
        "columns=a.b.c",
        "page=1&name=(a%2B)%2B%24&use_regex=true",
    ],
)
def test_odd_queries_are_answered(query: str, client: Client) -> None:
    assert client.request("GET", f"queues?{query}").status in (200, 400)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET /api/overview HTTP/9.9\r\n\r\n",
        b"GET /api/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        PROTOCOL_HEADER,
        b"POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: nine\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_cost_one_connection(data: bytes, node: MirrorMQ) -> None:
    with socket.create_connection(("127.0.0.1", node.management_port), timeout=30) as link:
        try:
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            while link.recv(65_536):
                pass
        except TimeoutError:
            raise
        except OSError:
            return  # The node would not even receive its end.
