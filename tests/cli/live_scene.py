"""Broker with active clients, and its tools' output: recorded from RabbitMQ, compared with MirrorMQ.

    python -m tests.cli.live_scene > tests/cli/transcripts/live.txt

records from a RabbitMQ that it starts, in some five minutes. Names, ports, pids and times are replaced.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.brokers.admin import MirrorAdmin, RabbitAdmin
from tests.brokers.ports import free_ports
from tests.brokers.rabbitmq import RabbitMQ, script_directory
from tests.cli.transcript import BOLD, HINT

HERE = Path(__file__).parent
COMMANDS = HERE / "live_commands.txt"
RECORDED = HERE / "transcripts" / "live.txt"

Outcome = tuple[int, str, str]
Tool = Callable[[str, list[str]], Outcome]
"""Function that runs a program with arguments and returns exit code, stdout and stderr."""

PID = re.compile(r"(#PID)?<[\w.@-]+>")
"""Pids; in JSON rabbitmqctl shows pids of its own node."""
CLIENT = re.compile(r"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+")
PEER = re.compile(r"(127\.0\.0\.1\t)\d+")
TOOLS = re.compile(r"rabbitmq(ctl|-diagnostics|-queues|-upgrade|-plugins)|mirrormqctl")
LOGGED_BY_THE_TOOL = re.compile(r"^\d\d:\d\d:\d\d\.\d+ \[")
NOT_HERE = re.compile(r"\b((quorum|stream)_queue|internal_cluster_id)\b")
"""Feature flags that MirrorMQ does not have, and a parameter that differs between clusters."""
MORE_PLUGINS = ("rabbitmq_prometheus",)
"""Plugins that are built in here, besides those that other recordings need."""
OWN_LISTENER = re.compile(r", http/prometheus\b")
"""Listener of RabbitMQ's metrics; here the HTTP API's listener serves them."""
SENT_AT_MS = 1_700_000_000


def declare(channel: BlockingChannel) -> None:
    """Declare exchanges, queues, bindings and messages."""
    channel.confirm_delivery()
    channel.exchange_declare("places", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    channel.exchange_declare("inner", "fanout", auto_delete=True, internal=True)
    channel.queue_declare("orders", durable=True, arguments={"x-max-length": 100, "x-overflow": "drop-head"})
    channel.queue_declare("passing", arguments={"x-message-ttl": 600000, "x-max-priority": 4})
    channel.queue_declare("alone", durable=True, arguments={"x-single-active-consumer": True})
    channel.queue_declare("mirrored", durable=True)
    channel.queue_bind("orders", "places", "town.#")
    channel.queue_bind("passing", "amq.headers", "", arguments={"x-match": "all", "size": 3})
    channel.exchange_bind("inner", "places", "#")
    persistent = pika.BasicProperties(delivery_mode=2, timestamp=SENT_AT_MS)
    for number in range(5):
        channel.basic_publish("places", f"town.{number}", b"12345", persistent)
    for _ in range(3):
        channel.basic_publish("", "passing", b"1234567890")
    channel.basic_publish("", "mirrored", b"m", persistent)


def consume(connection: pika.BlockingConnection) -> None:
    """Open channels of different kinds, some with consumers."""
    first = connection.channel()
    first.basic_qos(prefetch_count=2)
    first.basic_consume("orders", lambda *_: None, consumer_tag="taker", arguments={"x-priority": 7})
    second = connection.channel()
    second.queue_declare("mine", exclusive=True)
    second.basic_consume("mine", lambda *_: None, exclusive=True, auto_ack=True, consumer_tag="owner")
    third = connection.channel()
    third.tx_select()
    third.basic_publish("", "passing", b"not yet")
    fourth = connection.channel()
    for tag in ("active", "waiting"):
        fourth.basic_consume("alone", lambda *_: None, consumer_tag=tag)
    connection.process_data_events(0.2)


def administer(admin: RabbitAdmin | MirrorAdmin) -> None:
    """Create users, vhosts, policies and limits."""
    admin.add_vhost("other")
    admin.set_permissions("other", "guest", ".*", ".*", ".*")
    admin.add_user("anna", "pw", "monitoring")
    admin.set_permissions("/", "anna", "^a", "", ".*")
    admin.set_topic_permissions("/", "guest", "places", "^town", ".*")
    admin.set_policy("/", "all", "^mirrored$", {"ha-mode": "all"}, "queues", 3)
    admin.set_operator_policy("/", "short", "^passing$", {"max-length": 50}, "queues")
    admin.set_vhost_limits("other", {"max-queues": 7})
    admin.set_user_limits("anna", {"max-channels": 9})


@contextlib.contextmanager
def scene(broker: Any, admin: RabbitAdmin | MirrorAdmin) -> Iterator[None]:
    """Create everything and keep clients connected inside the block."""
    administer(admin)
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=600)
    with pika.BlockingConnection(parameters) as making:
        declare(making.channel())
    working = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, heartbeat=600, channel_max=100, frame_max=65536,
        client_properties={"product": "scene", "connection_name": "worker"},
    )  # fmt: skip
    connection = pika.BlockingConnection(working)
    try:
        consume(connection)
        if isinstance(admin, RabbitAdmin):
            time.sleep(1.0)  # RabbitMQ's queues report their numbers at once, its connections a moment later.
        yield
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):
            connection.close()


def transcript(tool: Tool, broker: Any) -> str:
    """Return the tools' output for every command line."""
    lines = [line for line in COMMANDS.read_text().splitlines() if line and not line.startswith("#")]
    return "\n".join(_written(line, tool, broker) for line in lines) + "\n"


def _written(line: str, tool: Tool, broker: Any) -> str:
    program, *words = shlex.split(line.replace("AMQP_PORT", str(broker.amqp_port)))
    code, out, error = tool(program, words)
    lines = [f"$ {line}"]
    for mark, text in (("O", out), ("E", error)):
        rows = [row for row in _plain(text, broker).split("\n") if not LOGGED_BY_THE_TOOL.match(row)]
        if " list_feature_flags" in line or " list_global_parameters" in line:
            rows = [row for row in rows if not NOT_HERE.search(row)]
        while rows and not rows[-1]:
            rows.pop()
        if "erlang" in line:
            rows = sorted(row.strip(" [],") for row in rows)  # The brackets of a row depend on its position.
        elif " list_" in line and "pretty" not in line:
            rows = sorted(row.lstrip(",") for row in rows)
        lines += [f"{mark}|{row}".rstrip() for row in rows]
    return "\n".join([*lines, f"=> {code}"])


def _plain(text: str, broker: Any) -> str:
    text = CLIENT.sub("CLIENT", HINT.sub("", BOLD.sub("", text))).replace(broker.node_name, "NODE")
    text = PID.sub("PID", TOOLS.sub("TOOL", OWN_LISTENER.sub("", text)))
    for name, port in (("AMQP_PORT", broker.amqp_port), ("HTTP_PORT", broker.management_port)):
        text = re.sub(rf"\b{port}\b", name, text)
    return PEER.sub(r"\1PORT", text)


def _recorded() -> str:
    settings = f"prometheus.tcp.port = {free_ports(1)[0]}"
    started = RabbitMQ(configuration=settings, more_plugins=MORE_PLUGINS)
    with started as broker, scene(broker, RabbitAdmin(broker)):
        return transcript(lambda program, words: _run(broker, program, words), broker)


def _run(broker: RabbitMQ, program: str, words: list[str]) -> Outcome:
    scripts = script_directory()
    assert scripts is not None
    done = subprocess.run(
        [str(scripts / program), *words], env=broker.environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    print(_recorded(), end="")
