"""Shovel between two nodes beside RabbitMQ's: 100-byte persistent messages, `on-confirm`.

    python -m benchmarks.shovels --messages 100000

Each broker moves the same backlog from a queue of one node to a queue of another one, with a shovel that ends
after `queue-length`. The time runs from the parameter to the last message at the destination.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import brokers
from benchmarks.machine import describe, today, write_table
from mirrormq.client_io.blocking_client import BlockingClient, connect
from mirrormq.wire import methods
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client
from tests.waiting import until

RESULTS = Path(__file__).with_name("BRIDGES.md")
MESSAGES, ROUNDS = 200_000, 3
"""Messages and rounds. The start of a shovel takes part of a second, as long as 50,000 messages need."""

TARGET = 8.0
"""Wanted ratio to RabbitMQ."""

BODY = b"x" * 100
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
WINDOW = 1_000
PATIENCE_S = 600.0

Broker = MirrorMQ | RabbitMQ


def client_of(broker: Broker) -> BlockingClient:
    return connect(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/%2F")


def fill(broker: Broker, messages: int) -> None:
    """Publish the backlog, with a confirm after each window."""
    with client_of(broker) as client:
        client.declare_queue("from", durable=True)
        client.call(methods.encode_confirm_select())
        for start in range(0, messages, WINDOW):
            for _ in range(min(WINDOW, messages - start)):
                client.channel.publish("", "from", PERSISTENT, BODY)
            client.flush()
        until(lambda: ready(broker, "from") == messages, patience_s=PATIENCE_S)


def ready(broker: Broker, queue: str) -> int:
    with client_of(broker) as client:
        reply = client.call(methods.encode_queue_declare(queue, durable=True))
        assert isinstance(reply, methods.QueueDeclareOk)
        return reply.message_count


def moved_per_s(source: Broker, destination: Broker, messages: int) -> float:
    """Move a backlog with a shovel of the source; return messages per second."""
    fill(source, messages)
    assert ready(destination, "to") == 0
    value: dict[str, Any] = {
        "src-uri": "amqp://", "src-queue": "from", "src-delete-after": "queue-length",
        "dest-uri": f"amqp://guest:guest@127.0.0.1:{destination.amqp_port}/%2F", "dest-queue": "to",
        "ack-mode": "on-confirm",
    }  # fmt: skip
    began = time.monotonic()
    reply = Client(source.management_port).put("parameters/shovel/%2F/bench", {"value": value})
    assert reply.status == 201, reply.body
    until(lambda: ready(destination, "to") >= messages, patience_s=PATIENCE_S)
    took_s = time.monotonic() - began
    with client_of(destination) as client:
        client.call(methods.encode_queue_purge("to"))
    return messages / took_s


def main() -> None:
    """Run both brokers in turn and print their medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    machine = describe(brokers.RabbitMQ.version())
    rates: dict[str, list[float]] = {"MirrorMQ": [], "RabbitMQ": []}
    with ExitStack() as stack:
        ours = [stack.enter_context(MirrorMQ()) for _ in range(2)]
        theirs = [stack.enter_context(RabbitMQ(more_plugins=("rabbitmq_shovel",))) for _ in range(2)]
        for _ in range(given.rounds):
            rates["MirrorMQ"].append(moved_per_s(ours[0], ours[1], given.messages))
            rates["RabbitMQ"].append(moved_per_s(theirs[0], theirs[1], given.messages))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name}: {medians[name]:,.0f} messages/s ({', '.join(f'{each:,.0f}' for each in found)})")
    print(f"ratio: {medians['MirrorMQ'] / medians['RabbitMQ']:.1f}")
    if given.messages == MESSAGES:
        write(rates, machine)
    else:
        print(f"other numbers than {MESSAGES} messages are not written to {RESULTS.name}")


def write(rates: dict[str, list[float]], machine: list[str]) -> None:
    """Write the table to BRIDGES.md."""
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratio = medians["MirrorMQ"] / medians["RabbitMQ"]
    text = [
        "# A shovel between two nodes beside RabbitMQ's",
        "",
        f"Written by `make bench` on {today()}: medians of {len(rates['MirrorMQ'])} alternating rounds,",
        "lowest and highest in brackets. All four nodes are up for the whole run.",
        f"A backlog of {MESSAGES:,} persistent messages of 100 bytes, `on-confirm`, prefetch count 1,000.",
    ]
    cells = [
        f"{medians[name]:,.0f} msg/s ({min(found):,.0f}–{max(found):,.0f})"
        for name, found in sorted(rates.items(), reverse=True)
    ]
    row = ["shovel", *cells, f"{ratio:.2f} ×", f"≥ {TARGET:g} ×", "yes" if ratio >= TARGET else "no"]
    headings = ["work", "RabbitMQ", "MirrorMQ", "ratio", "target", "ok"]
    write_table(RESULTS, text, machine, headings, [row])


if __name__ == "__main__":
    main()
