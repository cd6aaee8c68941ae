"""HTTP server: logins, unusual names, rates, metrics, long lists under load, stopping."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pika
import pytest

from mirrormq.management.http_errors import encode
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.brokers.waiting import Waiting
from tests.management.conftest import managed
from tests.management.http import Client, part

STALL_MS_MAX = 50.0
"""Longest time that a delivery may wait during a listing."""
QUEUES = 10_000
DEADLINE_S = 60.0
ROUNDS = 6
"""Attempts: other load may delay one round, but a real stall occurs every time."""


@pytest.fixture
def channel(node: MirrorMQ) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    yield connection.channel()
    connection.close()


def test_without_a_login_there_is_a_challenge_and_nothing_else(node: MirrorMQ) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", node.management_port, timeout=30)
    connection.request("GET", "/api/overview")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (401, b"")
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


GUEST = "Z3Vlc3Q6Z3Vlc3Q="
LOGINS = {
    f"Basic {GUEST}": 200, f"basic {GUEST}": 200, f"Basic  {GUEST}": 200,
    "Basic Z3Vlc3Q6": 401, "Basic Omd1ZXN0": 401, "Basic //46/w==": 401, "Bearer xyz": 401,
    "Digest username=x": 401,
    "": 400, "Basic": 400, "Basic !!!": 400, "Basic Z3Vlc3Q=": 400, f"Basic {GUEST}=": 400,
    "Basic Z3Vlc3Q6Z3Vlc3Q": 400, f"Basic {GUEST} x": 400, "Bearer": 400, "Bearer a b": 400,
    "Negotiate abc": 400, "xyz": 400,
}  # fmt: skip
"""Authorization headers and RabbitMQ's status for each."""


def logins(port: int) -> dict[str, tuple[int, str, bool]]:
    """Return status, reason, and whether there is a challenge."""
    client, found = Client(port), {}
    for header in LOGINS:
        answer = client.request("GET", "whoami", headers={"Authorization": header})
        reason = answer.json.get("reason", "") if answer.body else ""
        found[header] = (answer.status, reason, "www-authenticate" in answer.headers)
    return found


def test_a_login_is_read_as_rabbitmq_reads_it(node: MirrorMQ) -> None:
    found = logins(node.management_port)
    for header, status in LOGINS.items():
        reason = "Login failed" if status == 401 and not header.startswith("Digest") else ""
        assert (header, found[header]) == (header, (status, reason, status == 401))


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_rabbitmq_reads_logins_the_same_way(node: MirrorMQ, rabbitmq: RabbitMQ) -> None:
    assert logins(rabbitmq.management_port) == logins(node.management_port)


def test_head_and_options_are_answered(client: Client) -> None:
    head = client.request("HEAD", "whoami")
    assert (head.status, head.body) == (200, b"")
    options = client.request("OPTIONS", "queues/%2F/q")
    assert options.headers["allow"] == "HEAD, GET, PUT, DELETE, OPTIONS"


def test_paths_outside_the_api_are_not_found(client: Client) -> None:
    assert client.request("GET", "//apiqueues").status == 404
    assert client.request("GET", "//assets/../application.py").status == 404


@pytest.mark.parametrize("name", ["a/b", "ü ?#%&+", "<script>", "..", "~"])
def test_names_may_hold_anything(client: Client, name: str) -> None:
    path = f"queues/%2F/{part(name)}"
    assert client.put(path, {}).status == 201
    assert client.get(path)["name"] == name
    assert name in [row["name"] for row in client.get("queues?columns=name")]
    assert client.post(f"bindings/%2F/e/amq.topic/q/{part(name)}", {"routing_key": name}).status == 201
    (key,) = [row["properties_key"] for row in client.get(f"{path}/bindings") if row["source"] == "amq.topic"]
    assert client.delete(f"bindings/%2F/e/amq.topic/q/{part(name)}/{key}").status == 204
    assert client.delete(path).status == 204


def test_bytes_that_are_no_text_are_shown_with_replacements() -> None:
    shown = encode({"a\udcff": ["\udcfe", {"deep": "ü\udcfd"}]}).decode()
    assert shown == '{"a\ufffd":["\ufffd",{"deep":"ü\ufffd"}]}'


def test_a_body_without_end_is_refused(client: Client) -> None:
    answer = client.request("POST", "definitions", raw=b" " * (33 * 1024 * 1024))
    assert (answer.status, answer.json["error"]) == (400, "bad_request")


def test_a_changed_password_counts_at_once(node: MirrorMQ, client: Client) -> None:
    for password in ("first", "second"):
        assert client.put("users/moody", {"password": password, "tags": "management"}).status in (201, 204)
        assert Client(node.management_port, "moody", password).get("whoami")["name"] == "moody"
    assert Client(node.management_port, "moody", "first").request("GET", "whoami").status == 401
    assert client.delete("users/moody").status == 204
    assert Client(node.management_port, "moody", "second").request("GET", "whoami").status == 401


def test_a_closed_connection_receives_the_reason(node: MirrorMQ, client: Client) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    (row,) = client.get("connections")
    answer = client.request("DELETE", f"connections/{part(row['name'])}", headers={"X-Reason": "too loud"})
    assert answer.status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(DEADLINE_S)
    assert "too loud" in closed.value.reply_text


def test_rates_follow_what_happens_and_come_to_rest() -> None:
    with managed("collect_statistics_interval = 200\n") as node:
        client = Client(node.management_port)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
        channel = connection.channel()
        channel.queue_declare("rated")
        deadline = time.monotonic() + DEADLINE_S
        rate = 0.0
        while rate <= 0:
            assert time.monotonic() < deadline
            channel.basic_publish("", "rated", b"x")
            rate = (
                client.get("queues/%2F/rated")
                .get("message_stats", {})
                .get("publish_details", {"rate": 0})["rate"]
            )
        while client.get("queues/%2F/rated")["message_stats"]["publish_details"]["rate"] != 0:
            assert time.monotonic() < deadline
        seen = client.get("queues/%2F/rated")
        assert seen["message_stats"]["publish"] == seen["messages"] > 0
        published = seen["messages"]
        assert client.delete("queues/%2F/rated").status == 204
        while client.get("overview")["queue_totals"].get("messages") != 0:
            assert time.monotonic() < deadline
        assert client.get("overview")["message_stats"]["publish"] == published, "what was counted stays"
        connection.close()


VALUE = re.compile(r"^(\w+(?:\{.*\})?) (\S+)$", re.MULTILINE)


def scraped(node: MirrorMQ) -> str:
    """Return the metrics as Prometheus reads them."""
    connection = http.client.HTTPConnection("127.0.0.1", node.management_port, timeout=30)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.read().decode()
    connection.close()
    return text


def test_metrics_have_rabbitmqs_names_and_no_password(
    node: MirrorMQ, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (values := dict(VALUE.findall(text := scraped(node))))["rabbitmq_connections"] != "1":
        assert time.monotonic() < deadline, "clients of earlier tests are still there"
    assert values["rabbitmq_channels"] == "1"
    assert values["rabbitmq_alarms_memory_used_watermark"] == "0"
    assert int(values["rabbitmq_process_resident_memory_bytes"]) > 1_000_000
    names = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)), "a name is declared once"


def stall_ms(node: MirrorMQ, channel: pika.adapters.blocking_connection.BlockingChannel) -> float:
    """Return how long the node delayed a message."""
    waiting = Waiting(node.process_id)
    channel.basic_publish("", "ping", b"x")
    while channel.basic_get("ping", auto_ack=True)[0] is None:
        continue
    return waiting.caused_s() * 1000


LIST = (
    "import urllib.request, sys\n"
    "asked = urllib.request.Request(sys.argv[1], headers={'Authorization': 'Basic Z3Vlc3Q6Z3Vlc3Q='})\n"
    "print(len(urllib.request.urlopen(asked).read()))"
)
"""Script of a separate process that lists, so that the load of this process does not affect the
measurement."""


@pytest.mark.slow
def test_listing_ten_thousand_queues_does_not_hold_up_deliveries() -> None:
    with managed() as node:
        client = Client(node.management_port)
        queues = [{"name": f"q{number}", "vhost": "/", "durable": False} for number in range(QUEUES)]
        assert client.post("definitions", {"queues": queues}).status == 204
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
        channel = connection.channel()
        channel.queue_declare("ping")
        for path in ("queues", "queues?sort=messages", "bindings", "definitions"):
            address = f"http://127.0.0.1:{node.management_port}/api/{path}"
            worst: list[float] = []
            while not worst or (min(worst) >= STALL_MS_MAX and len(worst) < ROUNDS):
                asking = subprocess.Popen([sys.executable, "-c", LIST, address], stdout=subprocess.PIPE)
                stalls = [stall_ms(node, channel)]
                while asking.poll() is None:
                    stalls.append(stall_ms(node, channel))
                assert int(asking.communicate()[0]) > QUEUES * 50
                worst.append(max(stalls))
            assert min(worst) < STALL_MS_MAX, (path, worst)
        connection.close()


def test_a_node_stops_on_sigterm_while_clients_keep_their_connections() -> None:
    with managed() as node:
        kept = http.client.HTTPConnection("127.0.0.1", node.management_port, timeout=30)
        kept.request("GET", "/api/auth")
        assert kept.getresponse().read()
        assert node._process is not None
        node._process.send_signal(signal.SIGTERM)
        assert node._process.wait(timeout=DEADLINE_S) == 0
        assert "has stopped" in node.output


def test_a_login_by_form_is_tried_and_gives_no_cookie(client: Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    good = client.request("POST", "login", raw=b"username=guest&password=guest", headers=form)
    assert (good.status, good.json) == (200, "ok") and "set-cookie" not in good.headers
    assert client.put("users/untagged", {"password": "a b&c", "tags": ""}).status == 201
    refused = client.request("POST", "login", raw=b"username=untagged&password=a+b%26c", headers=form)
    assert (refused.status, refused.json["reason"]) == (401, "Not management user")
    assert client.delete("users/untagged").status == 204
