"""A broker in this process, without sockets or disks: bytes in, bytes out, and no chance in it."""

from __future__ import annotations

import itertools
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
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import PROTOCOL_HEADER

TURNS_MAX = 10_000


def make_broker(**settings: Any) -> Broker:
    """A broker with the guest user; names, choices and time are the same in every run."""
    metadata = member_in_memory().metadata
    metadata.boot(Defaults(records.User("guest", tags=["administrator"])))
    disk = SimulatedDisk(lambda below: 0)
    journal = Journal(disk, "journal", make_envelope, segment_bytes=1024 * 1024)
    journal.open()
    names = itertools.count()
    outside = Environment(lambda: str(next(names)), lambda below: 0, lambda check: check.decided(True))
    return Broker(
        Settings(**settings), metadata, journal, Clock(1_700_000_000_000), MemoryBudget(1 << 30), outside
    )


class Wire:
    """One connection and everything that it has said."""

    def __init__(self, broker: Broker, port: int = 1) -> None:
        self.broker = broker
        self.connection = Connection(broker, Peer("127.0.0.1", port))
        self.said = b""

    def feed(self, data: bytes, piece: int = 0) -> None:
        """Hand over bytes, all at once or in pieces, with no turn in between."""
        for at in range(0, len(data), piece or len(data) or 1):
            self.connection.receive(data[at : at + piece] if piece else data)

    def turn(self) -> None:
        """Finish the turn, and more of them while the connection has frames that had to wait."""
        for _ in range(TURNS_MAX):
            more = self.broker.turn()
            self.said += b"".join(self.connection.take_output())
            self.broker.writing.clear()
            buffered = self.connection.buffered_bytes
            self.connection.resume()
            if not more and self.connection.buffered_bytes == buffered and not self.connection.held:
                break
            if self.connection.finished:
                break
        self.said += b"".join(self.connection.take_output())

    def log_in(self) -> Wire:
        self.feed(hello())
        self.turn()
        return self


def hello() -> bytes:
    """Everything a client says until channel 1 is open."""
    login = methods.encode_connection_start_ok({}, "PLAIN", b"\0guest\0guest", "en_US")
    tune = methods.encode_connection_tune_ok(2047, 131072, 0)
    opening = [login, tune, methods.encode_connection_open("/")]
    frames = b"".join(method_frame(0, payload) for payload in opening)
    return PROTOCOL_HEADER + frames + method_frame(1, methods.encode_channel_open())
