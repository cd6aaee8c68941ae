"""One node of a local cluster as a process: whether it runs, and signals to it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class LocalNode:
    """One node of a local cluster."""

    name: str
    amqp_port: int
    management_port: int
    cluster_port: int
    pid: int = 0
    prefix: list[str] = field(default_factory=list)
    """In front of its command, where it runs in a network of its own."""

    @property
    def host(self) -> str:
        """Address at which other nodes find it."""
        return self.name.partition("@")[2]


def is_running(node: LocalNode) -> bool:
    """Is its process alive, and still the same program? (The system uses process ids again, and shows no
    command line for a moment while a process starts. Of one that was killed the threads end one by one, and
    it keeps its ports until the last has.)"""
    try:
        state = _state(node)
        command = Path(f"/proc/{node.pid}/cmdline").read_bytes().split(b"\0")
        threads = len(os.listdir(f"/proc/{node.pid}/task"))
    except (OSError, IndexError):
        return node.pid > 0 and not Path("/proc/self").exists() and _accepts_signals(node.pid)
    ended = state == "Z" and threads == 1
    return not ended and (node.name.encode() in command or command == [b""])


def is_frozen(node: LocalNode) -> bool:
    """Return whether SIGSTOP has stopped the process."""
    try:
        return is_running(node) and _state(node) in "Tt"
    except (OSError, IndexError):
        return False


def _state(node: LocalNode) -> str:
    """The letter of proc(5) for what the process does."""
    return Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _accepts_signals(pid: int) -> bool:
    """The best that can be known where there is no /proc."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def send(node: LocalNode, number: signal.Signals) -> None:
    if is_running(node):
        try:
            os.kill(node.pid, number)
        except ProcessLookupError:
            return


def end(node: LocalNode) -> None:
    """Ask for a graceful stop; who was frozen must go on to hear of it."""
    send(node, signal.SIGTERM)
    send(node, signal.SIGCONT)
