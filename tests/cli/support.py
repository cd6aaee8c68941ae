"""Node behind a control socket: real metadata, broker and journal, a simulated disk, no AMQP port."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import mirrormq.connections.connection  # noqa: F401 - the broker's types refer to it
from mirrormq.auth import passwords
from mirrormq.broker.broker import Broker, Environment
from mirrormq.clock import Clock
from mirrormq.cluster.bootstrap import member_in_memory
from mirrormq.config.settings import Settings
from mirrormq.control.control_protocol import Request
from mirrormq.control.live_view import LiveView
from mirrormq.control.node_interface import AppState, NodeShell
from mirrormq.metadata.records import User
from mirrormq.metadata.store import Defaults
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.runtime.control_server import ControlServer
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk

NODE_NAME = "mirror1@localhost"


class Alone:
    """Cluster of one node, an implementation of `control.node_interface.ClusterInterface` that cannot
    change."""

    def __init__(self) -> None:
        self.members = [NODE_NAME]
        self.running = [NODE_NAME]
        self.partitions: dict[str, list[str]] = {}
        self.address = ""

    async def ask_other_nodes(self, request: Request) -> list[Any]:
        """Return no results: there are no other nodes."""
        return []


class ControlledNode:
    """Implementation of `control.node_interface.NodeShell`."""

    def __init__(self, runtime_directory: Path) -> None:
        self.settings = Settings(name=NODE_NAME, runtime_directory=runtime_directory)
        self.app_state = AppState.RUNNING
        self.stopped = False
        self.memory_watermark: tuple[float | None, int | None] | None = None
        self.disk_limit: tuple[float | None, int | None] | None = None
        self.metadata = member_in_memory(NODE_NAME).metadata
        guest_hash = passwords.hash_password(b"guest", b"salt", passwords.SHA256)
        guest = User("guest", guest_hash, passwords.SHA256, ["administrator"])
        self.metadata.boot(Defaults(guest))
        journal = Journal(SimulatedDisk(lambda below: 0), "journal", make_envelope)
        journal.open()
        names = iter(range(1_000_000))
        self.broker = Broker(
            self.settings,
            self.metadata,
            journal,
            Clock(1_700_000_000_000),
            MemoryBudget(1 << 30),
            Environment(
                lambda: f"name-{next(names)}",
                lambda below: 0,
                lambda check: check.decided(
                    passwords.verify_password(
                        check.password, check.user.password_hash, check.user.hashing_algorithm
                    )
                ),
            ),
        )
        self.live = LiveView(self.broker)
        self.cluster = Alone()

    @property
    def serving(self) -> bool:
        return self.app_state is AppState.RUNNING

    async def settled(self) -> None:
        """Return at once: a single node needs no agreement."""

    async def start_app(self) -> None:
        self.app_state = AppState.RUNNING

    async def stop_app(self) -> None:
        self.app_state = AppState.STOPPED

    def status(self) -> dict[str, Any]:
        return {"pid": 1, "node": self.settings.name}

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        self.memory_watermark = (relative, absolute_bytes)

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        self.disk_limit = (relative, absolute_bytes)

    def stop(self) -> None:
        self.stopped = True


def run_ctl(*words: str) -> tuple[int, str, str]:
    """Run mirrormqctl as a process; return exit code, stdout and stderr."""
    command = [sys.executable, "-c", "from mirrormq.cli.ctl import main; main()", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, timeout=120)
    return done.returncode, done.stdout, done.stderr


@contextmanager
def served(runtime_directory: Path) -> Iterator[ControlledNode]:
    """Serve a node's control socket in a separate thread."""
    node = ControlledNode(runtime_directory)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    finish = asyncio.Event()

    async def serve() -> None:
        server = ControlServer(cast(NodeShell, node))
        assert await server.start() is None
        ready.set()
        await finish.wait()
        await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield node
    finally:
        loop.call_soon_threadsafe(finish.set)
        thread.join(10)
        loop.close()
