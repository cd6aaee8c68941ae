"""Three brokers without sockets: CPU time per message that is published on one node and consumed on another.

    python -m benchmarks.remote_micro [--persistent] [--vary] [--ids] [--single] [--profile]

The publisher is at node a, the queue at node b, the consumer at node c, all in this process; what goes
between nodes is encoded and decoded. The same work as `core_micro.py`, so that the two can be compared.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections import deque

import msgspec

from benchmarks.core_micro import ACK_EVERY, PREFETCH, WINDOW, connect, end_turn, make_broker, prepared
from mirrormq.broker.broker import Broker
from mirrormq.metadata import commands, records
from mirrormq.queues.queue import Queue
from mirrormq.remote.messages import RemoteMessage
from mirrormq.remote.place import Place
from mirrormq.remote.remote import Remote
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RemoteMessage).decode


class Nodes:
    """Brokers with links between all of them."""

    def __init__(self, directory: str, names: str, *, durable: bool) -> None:
        self.brokers: dict[str, Broker] = {}
        self._lanes: dict[tuple[str, str], deque[bytes]] = {}
        self.parcels = 0
        for name in names:
            broker = self.brokers[name] = make_broker(f"{directory}/{name}")
            broker.remote = Remote(name, 1, broker, lambda peer, m, own=name: self._send(own, peer, m))  # type: ignore[misc]
            broker.metadata.write(commands.PutQueue(records.Queue("/", "q", 0, durable, node="b")))
        for one in names:
            for other in names:
                if one != other:
                    self._lanes[one, other] = deque()
        for one, other in self._lanes:
            self._remote(one).up(other)
        for name in names:
            self._begin(name)
        self.carry()

    def _remote(self, name: str) -> Remote:
        remote = self.brokers[name].remote
        assert remote is not None
        return remote

    def _begin(self, name: str) -> None:
        vhost = self.brokers[name].vhosts["/"]
        queue = vhost.queues["q"]
        assert isinstance(queue, Queue)
        if name == "b":
            self._remote(name).serve(1, 1, queue)
        else:
            vhost.queues["q"] = self._remote(name).remote_queue(Place(1, 1, "/", "q"), "b", 1, queue.settings)
            vhost.router.invalidate()

    def _send(self, own: str, peer: str, message: RemoteMessage) -> None:
        self.parcels += 1
        self._lanes[own, peer].append(_encode(message))

    def carry(self) -> bool:
        """Let everything arrive that is on its way."""
        moved = False
        for (one, other), lane in self._lanes.items():
            remote = self._remote(other)
            while lane:
                moved = True
                remote.receive(one, _decode(lane.popleft()))
        return moved

    def turn(self) -> None:
        """Turns and links, until nothing moves."""
        while True:
            for broker in self.brokers.values():
                end_turn(broker)
            if not self.carry():
                return


def run(nodes: Nodes, rounds: int, options: argparse.Namespace) -> float:
    """Microseconds of CPU, on all nodes together, per message published and consumed."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--vary", action="store_true", help="bodies of 50 to 100 octets")
    parser.add_argument("--ids", action="store_true", help="a message id of its own for each message")
    parser.add_argument("--single", action="store_true", help="acknowledge one by one")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        nodes = Nodes(directory, "abc", durable=options.persistent)
        if options.profile:
            profile = cProfile.Profile()
            profile.runcall(run, nodes, options.rounds, options)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        else:
            spent = run(nodes, options.rounds, options)
            each = options.rounds * WINDOW // nodes.parcels
            print(f"{spent:.2f} µs of CPU per message on three nodes together, {each} messages a parcel")


if __name__ == "__main__":
    main()
