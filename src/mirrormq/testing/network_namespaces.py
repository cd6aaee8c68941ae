"""Network namespaces joined by a bridge, to cut the network between nodes.

Each node gets its own namespace with one interface in the bridge. A partition moves the interfaces of one
side to another bridge. Nothing is reset or refused: packets are lost, as with a failed switch. Needs root and
the `ip` command.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable

_SETNS_NETWORK = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkError(Exception):
    """Namespace or bridge cannot be created; the text is one sentence for the user."""


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise NetworkError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class NetworkNamespaces:
    """Namespaces 0, 1, 2 … with addresses 10.83.0.1, 10.83.0.2 … in one network."""

    def __init__(self, count: int, tag: str = "") -> None:
        self._tag = tag or f"mmq{os.getpid()}"
        self.addresses = [f"10.83.0.{number + 1}" for number in range(count)]

    @staticmethod
    def obstacle() -> str | None:
        """Return the reason why namespaces cannot be created here; None if they can."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        return None if shutil.which("ip") else "network namespaces need the ip command (Debian: iproute2)"

    def space(self, which: int | str) -> str:
        """Return the name of a namespace."""
        return f"{self._tag}-{which}"

    def make(self) -> None:
        """Create namespaces and bridge; on failure remove everything."""
        try:
            self._make()
        except NetworkError:
            self.remove()
            raise

    def _make(self) -> None:
        hub = self.space("hub")
        for which in ("hub", *range(len(self.addresses))):
            _ip("netns", "add", self.space(which))
            _ip("-n", self.space(which), "link", "set", "lo", "up")
        self._bridge(0)
        for which, address in enumerate(self.addresses):
            space, leg = self.space(which), f"leg{which}"
            _ip("-n", hub, "link", "add", leg, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("-n", hub, "link", "set", leg, "master", "side0", "up")
            _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _bridge(self, side: int) -> None:
        _ip("-n", self.space("hub"), "link", "add", f"side{side}", "type", "bridge", check=False)
        _ip("-n", self.space("hub"), "link", "set", f"side{side}", "up")

    def remove(self) -> None:
        """Remove all namespaces that exist."""
        for which in ("hub", *range(len(self.addresses))):
            _ip("netns", "del", self.space(which), check=False)

    def prefix(self, which: int) -> list[str]:
        """Return the command prefix that runs a program in a namespace."""
        return ["ip", "netns", "exec", self.space(which)]

    def part(self, *sides: Iterable[int]) -> None:
        """Partition the network: only nodes of the same side reach each other; a node in no side is alone."""
        named = [list(side) for side in sides]
        alone = [[n] for n in range(len(self.addresses)) if not any(n in side for side in named)]
        for number, side in enumerate(named + alone):
            self._bridge(number)
            for which in side:
                _ip("-n", self.space("hub"), "link", "set", f"leg{which}", "master", f"side{number}")

    def heal(self) -> None:
        """Let all nodes reach each other."""
        self.part(range(len(self.addresses)))

    def socket(self, which: int) -> socket.socket:
        """Return a TCP socket inside a namespace, usable by a process outside."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.space(which)}") as there:
            # A socket stays in the namespace in which it was created, also after the thread has left it.
            _enter(there.fileno())
            try:
                return socket.socket()
            finally:
                _enter(home.fileno())


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _SETNS_NETWORK):
        raise NetworkError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")
