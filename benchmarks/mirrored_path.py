"""Mirrored message path in process: three brokers, joined by peer frames, without sockets and without fsync.

    mu  unlike publishes to a queue with two mirrors, as workload u of `benchmarks.core_path`
    mt  one message per turn on the same queue: publish, deliver and confirm, acknowledge

The figures are the CPU time of all three nodes. Messages between nodes are encoded, framed, read and decoded
as on a peer link. Each node ends a turn after the frames of each peer, so that a lone publish costs the turns
that it costs in a cluster: the master sends, both mirrors store and report, the master confirms.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.core_micro import make_broker
from benchmarks.core_path import QUEUE, Path
from mirrormq.broker.broker import Broker
from mirrormq.config.settings import Settings
from mirrormq.metadata import commands, records
from mirrormq.peers import peer_limits
from mirrormq.peers.framing import FrameReader
from mirrormq.peers.lanes import Lanes, joined
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch

NODES = ("node1@bench", "node2@bench", "node3@bench")

SETTLE_ROUNDS_MAX = 1_000
"""Rounds after which nodes that still have messages for each other will never finish."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RemoteMessage | RingBatch).decode


class MirroredPath(Path):
    """Path whose queue has its master on the first of three nodes, and mirrors on the others."""

    def __init__(self, directory: str) -> None:
        self._brokers: dict[str, Broker] = {}
        self._lanes: dict[tuple[str, str], Lanes] = {}
        self._readers: dict[tuple[str, str], FrameReader] = {}
        self._commands: deque[tuple[Broker, commands.Command, Callable[[], None] | None]] = deque()
        self._applies: dict[str, Callable[..., Any]] = {}
        for name in NODES:
            os.mkdir(os.path.join(directory, name))
            self._add(name, os.path.join(directory, name))
        for name in NODES:
            for peer in NODES:
                if peer != name:
                    self._lanes[name, peer], self._readers[name, peer] = Lanes(), FrameReader()
                    self._brokers[name].link_up(peer)
        super().__init__(directory)

    def make_broker(self, directory: str) -> Broker:
        """Return the broker that the clients are connected to: the master's."""
        return self._brokers[NODES[0]]

    def _add(self, name: str, directory: str) -> None:
        def send(peer: str, message: RemoteMessage | RingBatch) -> None:
            self._lanes[name, peer].put(_encode(message), urgent=False, packed=True)

        def write(
            command: commands.Command,
            done: Callable[[], None] | None = None,
            sync: bool = True,
            grouped: bool = False,
        ) -> None:
            self._commands.append((broker, command, done))

        broker = self._brokers[name] = make_broker(directory, Settings(name=name), send)
        self._applies[name] = broker.metadata.write
        broker.metadata.write = write  # type: ignore[method-assign,assignment]
        for known in NODES:
            self._applies[name](commands.PutNode(records.Node(known, incarnation=1, running=True)))

    def _apply_commands(self) -> None:
        """Apply written metadata commands on every node, in one order."""
        while self._commands:
            origin, command, done = self._commands.popleft()
            for name, broker in self._brokers.items():
                self._applies[name](command, done if broker is origin else None)

    def declare(self) -> None:
        """Declare the queue, then add its mirrors."""
        super().declare()
        policy = records.Policy("/", "ha", ".*", "queues", {"ha-mode": "all", "ha-sync-mode": "automatic"})
        self._commands.append((self.broker, commands.PutPolicy(policy), None))
        record = self.broker.metadata.state.queues["/", QUEUE]
        view = record.ring.with_members(NODES)
        change = commands.ChangeViews([commands.ViewChange(record.queue_id, view)])
        self._commands.append((self.broker, change, None))
        self.end_turn()
        view = self.broker.metadata.state.queues["/", QUEUE].ring
        assert view.in_sync == frozenset(NODES), view

    def end_turn(self) -> None:
        """End turns until no node has a message for another."""
        super().end_turn()
        for _ in range(SETTLE_ROUNDS_MAX):
            self._apply_commands()
            moved = [self._carry(peer) for peer in NODES]
            if True not in moved:
                return
        raise AssertionError("the nodes do not come to rest")

    def _carry(self, receiver: str) -> bool:
        """Bring the frames of all peers to a node, and end its turn; False if there were none."""
        broker, any_read = self._brokers[receiver], False
        for sender in NODES:
            lanes = self._lanes.get((sender, receiver))
            if lanes is None or not lanes:
                continue
            any_read = True
            while lanes:
                for piece in joined(lanes.take(peer_limits.WRITE_BYTES_PER_TURN)):
                    for _, payload in self._readers[sender, receiver].receive(bytes(piece)):
                        broker.link_message(sender, _decode(payload))
        if any_read or broker.replica_manager.pending:
            if broker is self.broker:
                super().end_turn()
            else:
                broker.turn()
        return any_read or bool(self._commands)

    def reset(self) -> None:
        """End the consumer, empty the queue and all journals."""
        super().reset()
        for name in NODES[1:]:
            broker = self._brokers[name]
            while broker.journal.housekeeping(1 << 30):
                self.end_turn()
