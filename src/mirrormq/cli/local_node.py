"""Process of one node in a local cluster: its state, and signals to it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class LocalNode:
    """Node of a local cluster."""

    name: str
    amqp_port: int
    management_port: int
    cluster_port: int
    pid: int = 0
    prefix: list[str] = field(default_factory=list)
    """Words before its command, for a node in a separate network namespace."""

    @property
    def host(self) -> str:
        """Address at which other nodes reach it."""
        return self.name.partition("@")[2]


def is_running(node: LocalNode) -> bool:
    """Report whether the node's process is alive and still the same program.

    The system reuses process ids, so the command line must contain the node's name. It is empty for a
    moment while a process starts. The threads of a killed process end one by one, and it holds its ports
    until the last has ended.
    """
    try:
        state = _state(node)
        command = Path(f"/proc/{node.pid}/cmdline").read_bytes().split(b"\0")
        threads = len(os.listdir(f"/proc/{node.pid}/task"))
    except (OSError, IndexError):
        return node.pid > 0 and not Path("/proc/self").exists() and _accepts_signals(node.pid)
    ended = state == "Z" and threads == 1
    return not ended and (node.name.encode() in command or command == [b""])


def is_frozen(node: LocalNode) -> bool:
    """Report whether SIGSTOP has stopped the process."""
    try:
        return is_running(node) and _state(node) in "Tt"
    except (OSError, IndexError):
        return False


def _state(node: LocalNode) -> str:
    """Return the process state, a letter of proc(5)."""
    return Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _accepts_signals(pid: int) -> bool:
    """Report whether a process exists, on systems without /proc."""
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
    """Request a graceful stop; a frozen process must continue to receive it."""
    send(node, signal.SIGTERM)
    send(node, signal.SIGCONT)
