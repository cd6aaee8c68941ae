"""Microbenchmark of the broker without sockets: CPU time per message from connection to journal.

    python benchmarks/core_micro.py [--persistent] [--vary] [--ids] [--single] [--profile]

A publisher with a confirm window of 1000 and a consumer with prefetch 500 that acknowledges every
100th message use one broker in this process; their frames are prepared beforehand. The result shows
the cost of a change to the hot path, without the noise of sockets on a loaded machine.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import pstats
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from mirrormq.auth.client_peer import Peer
from mirrormq.broker.broker import Broker, Environment
from mirrormq.clock import Clock
from mirrormq.cluster.bootstrap import member_in_memory
from mirrormq.config.settings import Settings
from mirrormq.connections.connection import Connection
from mirrormq.metadata import records
from mirrormq.metadata.store import Defaults
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties

WINDOW, PREFETCH, ACK_EVERY, BODY = 1000, 500, 100, b"x" * 100


def make_broker(
    directory: str,
    settings: Settings | None = None,
    send: Callable[[str, Any], None] = lambda peer, said: None,
) -> Broker:
    """Create a broker with one user and a real journal."""
    metadata = member_in_memory().metadata
    metadata.boot(Defaults(records.User("guest", tags=["administrator"])))
    journal = Journal(LocalDisk(), directory, make_envelope)
    journal.open()
    names = itertools.count()
    outside = Environment(lambda: str(next(names)), lambda n: 0, lambda check: check.decided(True), send)
    clock, budget = Clock(1_700_000_000_000), MemoryBudget(1 << 30)
    return Broker(settings or Settings(), metadata, journal, clock, budget, outside)


def connect(broker: Broker) -> Connection:
    """Return a connection with channel 1 open."""
    connection = Connection(broker, Peer("127.0.0.1", 1))
    connection.receive(b"AMQP\x00\x00\x09\x01")
    login = methods.encode_connection_start_ok({}, "PLAIN", b"\0guest\0guest", "en_US")
    for payload in (
        login,
        methods.encode_connection_tune_ok(2047, 131072, 0),
        methods.encode_connection_open("/"),
    ):
        connection.receive(method_frame(0, payload))
    connection.receive(method_frame(1, methods.encode_channel_open()))
    return connection


def prepared(options: argparse.Namespace) -> bytes:
    """Return a window of publishes, encoded as a client sends them."""
    method = method_frame(1, methods.encode_basic_publish("", "q"))
    window = []
    for number in range(WINDOW):
        properties = BasicProperties(
            delivery_mode=2 if options.persistent else 1, message_id=f"id-{number}" if options.ids else None
        )
        body = BODY[: 50 + number % 50] if options.vary else BODY
        window.append(method + build_frames(1, encode_properties(properties), body, 0))
    return b"".join(window)


def run(broker: Broker, rounds: int, options: argparse.Namespace) -> float:
    """Return microseconds of CPU per message published and consumed."""
    persistent, ack_every = options.persistent, 1 if options.single else ACK_EVERY
    publisher, consumer = connect(broker), connect(broker)
    declare = methods.encode_queue_declare("q", durable=persistent)
    publisher.receive(method_frame(1, declare) + method_frame(1, methods.encode_confirm_select()))
    consumer.receive(method_frame(1, methods.encode_basic_qos(0, PREFETCH)))
    consumer.receive(method_frame(1, methods.encode_basic_consume("q", "c")))
    batch = prepared(options)
    channel = consumer.channels[1]
    acked = 0
    started = time.process_time()
    for _ in range(rounds):
        publisher.receive(batch)
        end_turn(broker)
        while channel.last_tag - acked >= ack_every:
            acks = []
            while channel.last_tag - acked >= ack_every:
                acked += ack_every
                acks.append(method_frame(1, methods.encode_basic_ack(acked, not options.single)))
            consumer.receive(b"".join(acks))
            end_turn(broker)
    spent = time.process_time() - started
    assert channel.last_tag == rounds * WINDOW, channel.last_tag
    return spent / (rounds * WINDOW) * 1e6


def end_turn(broker: Broker) -> None:
    """End a turn as the runtime does, without sockets."""
    broker.turn()
    while broker.writing:
        connection, _ = broker.writing.popitem()
        b"".join(connection.take_output())


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of the workload options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--vary", action="store_true", help="bodies of 50 to 100 octets")
    parser.add_argument("--ids", action="store_true", help="a distinct message id for each message")
    parser.add_argument("--single", action="store_true", help="acknowledge one by one")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--rounds", type=int, default=300)
    return parser


def show_profile(work: Callable[[], float]) -> None:
    """Print the profile of a run."""
    profile = cProfile.Profile()
    profile.runcall(work)
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def main() -> None:
    """Measure, or profile."""
    options = make_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = partial(run, make_broker(directory), options.rounds, options)
        if options.profile:
            show_profile(work)
        else:
            print(f"{work():.2f} µs of CPU per message")


if __name__ == "__main__":
    main()
