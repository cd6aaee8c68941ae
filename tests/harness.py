"""Test harness: a whole broker in this process, with real connections, channels, queues, journal and
metadata.

    node = Node()
    client = node.connect()
    client.send(methods.encode_queue_declare("q"))
    client.publish("q", b"hello")
    assert client.read() == […]                 runs a turn, returns what a client would have read

There are no sockets. The disk is simulated, so a test may stop, kill or cut the power of the node
(`restart`). The clock stands still until `advance`. Output reaches a client only after the turn that the
runtime would have run.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, Literal, NamedTuple

from mirrormq.auth.client_peer import Peer
from mirrormq.broker.broker import Broker, Environment
from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.client.client_handshake import ClientOptions, client_properties, sasl_response
from mirrormq.clock import Clock
from mirrormq.cluster.bootstrap import new_cluster
from mirrormq.cluster.member import Member
from mirrormq.config.settings import Settings
from mirrormq.connections.connection import Connection
from mirrormq.consensus import Automatic
from mirrormq.metadata import records
from mirrormq.metadata.commands import Command
from mirrormq.metadata.store import Defaults
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.frames import BODY, FRAME_END, FRAME_MAX_BYTES, HEADER, METHOD, PROTOCOL_HEADER
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

START_MS = 1_700_000_000_000
FRAME_MAX = FRAME_MAX_BYTES
CAPABILITIES = ("consumer_cancel_notify", "publisher_confirms", "basic.nack", "connection.blocked")
HOT_BYTES = 1 << 30


class Received(NamedTuple):
    """Method that a client read, with its content if any."""

    channel: int
    method: Any
    properties: BasicProperties | None = None
    body: bytes | None = None


class Node:
    """Broker on one disk; `restart` starts another one on the same disk."""

    metadata_directory = "data/metadata"
    limits = BrokerLimits()

    def __init__(
        self, disk: SimulatedDisk | None = None, *, seed: int = 1, segment_bytes: int = 64 * 1024,
        name: str = Settings().name,
    ) -> None:  # fmt: skip
        self.name = name
        self.disk = disk or SimulatedDisk(random.Random(seed).randrange)
        self.clock = Clock(START_MS)
        self._segment_bytes = segment_bytes
        self._names = itertools.count(1)
        self.boot()

    def boot(self) -> None:
        """Start the node from its disk."""
        self.clients: list[Client] = []
        self._files = ConsensusLog(self.disk, self.metadata_directory)
        name = Settings().name
        self._files.open(lambda: new_cluster(name, lambda below: 0))
        self.member = Member(name, self._files, Automatic(), lambda below: 0)
        self.metadata = self.member.metadata
        self.metadata.boot(Defaults(records.User("guest", tags=["administrator"])))
        self.metadata_opened()
        self.journal = Journal(self.disk, "data/journal", make_envelope, segment_bytes=self._segment_bytes)
        self.journal.open()
        self.journal.forget_unknown([queue.queue_id for queue in self.metadata.state.queues.values()])
        self.budget = MemoryBudget(HOT_BYTES, self.limits.queues)
        self.clock = Clock(self.clock.now_ms)
        settings = Settings(name=self.name)
        self.broker = Broker(settings, self.metadata, self.journal, self.clock, self.budget, self.outside())

    def metadata_opened(self) -> None:
        """Hook for subclasses: the metadata is open, and has no listeners yet."""

    def outside(self) -> Environment:
        """Return the environment of the broker: names, randomness and password checks."""
        return Environment(
            lambda: f"name-{next(self._names)}",
            lambda below: 0,
            lambda check: check.decided(True),
            limits=self.limits,
        )

    def restart(self, way: Literal["stop", "kill", "power"] = "stop") -> None:
        """Stop in order ("stop"), kill the process ("kill"), or lose everything that was not synced
        ("power"); then start again."""
        if way == "stop":
            for client in list(self.clients):
                client.lose()
            self.turn()
            self.journal.close()
            self._files.close()
        elif way == "kill":
            self.disk.kill()
        else:
            self.disk.crash()
        self.boot()

    def connect(self, **options: Any) -> Client:
        """Return a client with channel 1 open."""
        return Client(self, **options)

    def write(self, command: Command) -> None:
        """Change the metadata as an operator would."""
        self.metadata.write(command)

    def turn(self) -> None:
        """Run turns until no work is left."""
        while self.broker.turn():
            pass

    def advance(self, milliseconds: int) -> None:
        """Advance the clock, and run what is due."""
        self.clock.now_ms += milliseconds
        self.clock.run_due()
        self.turn()

    def queue(self, name: str) -> Queue:
        """Return a live queue whose master is this node."""
        found = self.queue_object(name)
        assert isinstance(found, Queue)
        return found

    def queue_object(self, name: str) -> QueueInterface:
        """Return a queue as channels see it, mastered by this node or by another one."""
        return self.broker.vhosts["/"].queues[name]

    def counts(self, name: str) -> tuple[int, int]:
        """Return the numbers of a queue's ready and unacknowledged messages."""
        backing = self.queue(name).backing
        return backing.ready_count, backing.unacked_count


class Client:
    """Client end of a connection: sends method payloads, decodes the replies."""

    def __init__(
        self, node: Node, *, user: str = "guest", capabilities: tuple[str, ...] = CAPABILITIES
    ) -> None:
        self.node = node
        self._unread: list[Received] = []
        self.connection = Connection(node.broker, Peer("127.0.0.1", 1))
        node.clients.append(self)
        self.connection.receive(PROTOCOL_HEADER)
        options = ClientOptions(user, user, capabilities=dict.fromkeys(capabilities, True))
        login = sasl_response("PLAIN", options)
        self.send(
            methods.encode_connection_start_ok(client_properties(options), "PLAIN", login, "en_US"), channel=0
        )
        self.send(methods.encode_connection_tune_ok(2047, FRAME_MAX, 0), channel=0)
        self.send(methods.encode_connection_open("/"), channel=0)
        self.send(methods.encode_channel_open())
        assert isinstance(self.read()[-1].method, methods.ChannelOpenOk)

    # -- sending --------------------------------------------------------------------------------

    def send(self, *payloads: bytes, channel: int = 1) -> None:
        """Send methods without content, in one write."""
        self.connection.receive(b"".join([method_frame(channel, payload) for payload in payloads]))

    def publish(
        self, key: str, *bodies: bytes, exchange: str = "", mandatory: bool = False, channel: int = 1,
        persistent: bool = False, **properties: Any,
    ) -> None:  # fmt: skip
        """Publish messages with equal properties, in one write."""
        method = method_frame(channel, methods.encode_basic_publish(exchange, key, mandatory))
        mode = 2 if persistent else None
        header = encode_properties(BasicProperties(delivery_mode=mode, **properties))
        self.connection.receive(
            b"".join([method + build_frames(channel, header, body, FRAME_MAX) for body in bodies])
        )

    def lose(self) -> None:
        """Drop the connection."""
        self.connection.lost()
        self.node.clients.remove(self)

    # -- reading --------------------------------------------------------------------------------

    def read(self, *, turn: bool = True) -> list[Received]:
        """Return everything received since the last `read`; without a turn, only what the broker has written
        already."""
        if turn:
            self.node.turn()
        while True:
            data, waiting = b"".join(self.connection.take_output()), self.connection.buffered_bytes
            self._decode(data)
            if not turn:
                break
            self.connection.resume()
            self.node.turn()
            if not data and self.connection.buffered_bytes == waiting:
                break
        self.node.broker.writing.pop(self.connection, None)
        received, self._unread = self._unread, []
        return received

    def methods(self) -> list[Any]:
        """Return the methods received since the last `read`."""
        return [received.method for received in self.read()]

    def call(self, payload: bytes, channel: int = 1) -> Any:
        """Send one method and return its only reply."""
        self.send(payload, channel=channel)
        (reply,) = self.read()
        return reply.method

    def get(self, queue: str, *, no_ack: bool = False, channel: int = 1) -> Received | None:
        """Fetch a message with basic.get; return None if the queue is empty."""
        self.send(methods.encode_basic_get(queue, no_ack), channel=channel)
        (reply,) = self.read()
        return None if isinstance(reply.method, methods.BasicGetEmpty) else reply

    def drain(self, queue: str) -> list[bytes]:
        """Fetch all ready messages, first to last."""
        bodies = []
        while (message := self.get(queue, no_ack=True)) is not None:
            bodies.append(message.body or b"")
        return bodies

    def _decode(self, data: bytes) -> None:
        at = 0
        missing = 0
        while at < len(data):
            kind, channel = data[at], int.from_bytes(data[at + 1 : at + 3], "big")
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            payload = data[at + 7 : at + 7 + size]
            assert data[at + 7 + size] == FRAME_END, "a frame does not end where it should"
            at += size + 8
            if kind == METHOD:
                assert not missing, "a method in the middle of a content"
                self._unread.append(Received(channel, methods.decode_method(payload)))
                continue
            last = self._unread[-1]
            assert last.channel == channel, "a content on another channel than its method"
            if kind == HEADER:
                missing = int.from_bytes(payload[4:12], "big")
                self._unread[-1] = last._replace(properties=decode_properties(payload, 12), body=b"")
            else:
                assert kind == BODY
                missing -= len(payload)
                self._unread[-1] = last._replace(body=(last.body or b"") + payload)
        assert not missing, "a content that ends early"


def deliveries(received: list[Received]) -> list[tuple[int, bytes | None, bool]]:
    """Return tag, body and redelivered flag of the deliveries among the received methods."""
    return [
        (each.method.delivery_tag, each.body, each.method.redelivered)
        for each in received
        if isinstance(each.method, methods.BasicDeliver | methods.BasicGetOk)
    ]
