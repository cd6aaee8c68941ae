"""Ports on loopback for nodes that are about to start, never the same for two processes of a machine.

A port that was found free is nobody's until a node listens on it, which takes a second or more, and a node
that was killed leaves its port to whoever comes. Tests that run side by side would at times be given each
other's ports. So the ports are dealt out in blocks: the first port of a block is held, for as long as the
process lives, by the one that deals from it, and within a process the same port comes again only when all
others have had their turn.
"""

from __future__ import annotations

import random
import socket

PORTS = range(16_000, 25_000)
"""Below those that systems give to outgoing connections, which come and go; and not the ports of brokers."""

BLOCK_PORTS = 100
"""More than the ports of any cluster on one machine; 90 blocks are enough for many processes."""


class PortAllocator:
    """Deals out what one process may use."""

    def __init__(self, ports: range = PORTS) -> None:
        self._starts = list(range(ports.start, ports.stop, BLOCK_PORTS))
        random.shuffle(self._starts)
        self._held: dict[int, socket.socket] = {}
        self._turn: list[int] = []
        """Our blocks, the one that was dealt from last at the end."""
        self._next = 0
        self._end = 0

    def neighbours(self, count: int) -> int:
        """The first of so many neighbouring ports that nobody uses."""
        fruitless = 0
        while fruitless <= len(self._starts):
            while self._next + count <= self._end:
                first, self._next = self._next, self._next + count
                if all(_is_free(first + n) for n in range(count)):
                    return first
                self._next = first + 1
            self._open_block()
            fruitless += 1
        raise RuntimeError(f"found no {count} neighbouring free ports")

    def _open_block(self) -> None:
        """Go on in a block of nobody's, or if there is none in the one of ours that has rested longest."""
        for start in self._starts:
            if start not in self._held and (holder := _bound(start)) is not None:
                self._held[start] = holder
                self._turn.append(start)
                break
        else:
            if not self._turn:
                raise RuntimeError("every block of ports is in use by another process")
            self._turn.append(self._turn.pop(0))
        self._next, self._end = self._turn[-1] + 1, self._turn[-1] + BLOCK_PORTS

    def close(self) -> None:
        """Leave the blocks to others."""
        for holder in self._held.values():
            holder.close()


_dealer = PortAllocator()


def free_ports(count: int) -> int:
    """The first of `count` neighbouring ports that nobody uses, and nobody else is given."""
    return _dealer.neighbours(count)


def _bound(port: int) -> socket.socket | None:
    """A socket that has this port of loopback, if nobody else does."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return None
    return holder


def _is_free(port: int) -> bool:
    probe = _bound(port)
    if probe is None:
        return False
    probe.close()
    return True
