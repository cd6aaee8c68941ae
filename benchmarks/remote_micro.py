"""Microbenchmark of three brokers without sockets: CPU time per message from one node to another.

    python -m benchmarks.remote_micro [--persistent] [--mirrored] [--vary] [--ids] [--single] [--profile]

The publisher is at node a, the queue at node b, the consumer at node c, all in this process; messages
between nodes are encoded and decoded. The workload equals that of `core_micro.py`, for comparison.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from functools import partial

import msgspec

from benchmarks.core_micro import (
    ACK_EVERY,
    PREFETCH,
    WINDOW,
    connect,
    end_turn,
    make_broker,
    make_parser,
    prepared,
    show_profile,
)  # fmt: skip
from mirrormq.broker.broker import Broker
from mirrormq.config.settings import Settings
from mirrormq.metadata import commands, records
from mirrormq.metadata.ring_view import View
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RemoteMessage | RingBatch).decode


class Nodes:
    """Brokers with links between all of them; b is the master of q, and the others in `ring` are its
    mirrors."""

    def __init__(self, directory: str, names: str, ring: str, *, durable: bool) -> None:
        self.brokers: dict[str, Broker] = {}
        self._lanes: dict[tuple[str, str], deque[bytes]] = {}
        self.frames = 0
        view = View(1, 0, tuple(ring), frozenset(ring)) if len(ring) > 1 else None
        for name in names:
            broker = make_broker(f"{directory}/{name}", Settings(name=name), partial(self._send, name))
            self.brokers[name] = broker
            for node in names:
                broker.metadata.write(commands.PutNode(records.Node(node, incarnation=1, running=True)))
        for one in names:
            for other in names:
                if one != other:
                    self._lanes[one, other] = deque()
        for one, other in self._lanes:
            self.brokers[one].link_up(other)
        for broker in self.brokers.values():
            queue = records.Queue("/", "q", 0, durable, node="b", view=view)
            broker.metadata.write(commands.PutQueue(queue))
        self.turn()

    def _send(self, own: str, peer: str, message: RemoteMessage | RingBatch) -> None:
        self.frames += 1
        self._lanes[own, peer].append(_encode(message))

    def carry(self) -> bool:
        """Deliver everything in flight; return whether anything moved."""
        moved = False
        for (one, other), lane in self._lanes.items():
            broker = self.brokers[other]
            while lane:
                moved = True
                broker.link_message(one, _decode(lane.popleft()))
        return moved

    def turn(self) -> None:
        """Run turns and links until nothing moves."""
        while True:
            for broker in self.brokers.values():
                end_turn(broker)
            if not self.carry():
                return


def run(nodes: Nodes, rounds: int, options: argparse.Namespace) -> float:
    """Return microseconds of CPU, on all nodes together, per message published and consumed."""
    ack_every = 1 if options.single else ACK_EVERY
    publisher, consumer = connect(nodes.brokers["a"]), connect(nodes.brokers["c"])
    publisher.receive(method_frame(1, methods.encode_confirm_select()))
    consumer.receive(method_frame(1, methods.encode_basic_qos(0, PREFETCH)))
    consumer.receive(method_frame(1, methods.encode_basic_consume("q", "c")))
    nodes.turn()
    batch = prepared(options)
    channel = consumer.channels[1]
    acked = 0
    started = time.process_time()
    for _ in range(rounds):
        publisher.receive(batch)
        nodes.turn()
        while channel.last_tag - acked >= ack_every:
            acks = []
            while channel.last_tag - acked >= ack_every:
                acked += ack_every
                acks.append(method_frame(1, methods.encode_basic_ack(acked, not options.single)))
            consumer.receive(b"".join(acks))
            nodes.turn()
    spent = time.process_time() - started
    assert channel.last_tag == rounds * WINDOW, channel.last_tag
    ledger = publisher.channels[1].publishing.confirms
    assert ledger is not None and not ledger.open_count
    return spent / (rounds * WINDOW) * 1e6


def main() -> None:
    """Measure, or profile."""
    parser = make_parser(__doc__)
    parser.add_argument("--mirrored", action="store_true", help="the queue is mirrored on all three nodes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        ring = "bca" if options.mirrored else "b"
        nodes = Nodes(directory, "abc", ring, durable=options.persistent)
        work = partial(run, nodes, options.rounds, options)
        if options.profile:
            show_profile(work)
        else:
            spent = work()
            each = options.rounds * WINDOW // nodes.frames
            print(f"{spent:.2f} µs of CPU per message on three nodes together, {each} messages per frame")


if __name__ == "__main__":
    main()
