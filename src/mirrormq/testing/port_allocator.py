"""Allocator of loopback ports for nodes that are about to start, distinct between processes of a machine.

A free port stays unclaimed until a node listens on it, which takes a second or more. A killed node frees its
port for any other process. Parallel tests would sometimes get each other's ports. The allocator therefore
hands out ports in blocks. A process binds the first port of a block as long as it runs. Within a process a
port is reused only after all other ports were used.
"""

from __future__ import annotations

import random
import socket

PORTS = range(16_000, 25_000)
"""Port range below the ephemeral ports of outgoing connections, without the ports of brokers."""

BLOCK_PORTS = 100
"""Ports per block: more than any cluster on one machine uses; 90 blocks are enough for many processes."""


class PortAllocator:
    """Allocator of one process."""

    def __init__(self, ports: range = PORTS) -> None:
        self._starts = list(range(ports.start, ports.stop, BLOCK_PORTS))
        random.shuffle(self._starts)
        self._held: dict[int, socket.socket] = {}
        self._turn: list[int] = []
        """Blocks of this process; the block used last is at the end."""
        self._next = 0
        self._end = 0

    def neighbours(self, count: int) -> int:
        """Return the first of `count` neighbouring free ports."""
        blocks_tried = 0
        while blocks_tried <= len(self._starts):
            while self._next + count <= self._end:
                first, self._next = self._next, self._next + count
                if all(_is_free(first + n) for n in range(count)):
                    return first
                self._next = first + 1
            self._open_block()
            blocks_tried += 1
        raise RuntimeError(f"found no {count} neighbouring free ports")

    def _open_block(self) -> None:
        """Continue in an unclaimed block; without one in our block that was used longest ago."""
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
        """Release the blocks for other processes."""
        for holder in self._held.values():
            holder.close()


_dealer = PortAllocator()


def free_ports(count: int) -> int:
    """Return the first of `count` neighbouring free ports that no other process gets."""
    return _dealer.neighbours(count)


def _bound(port: int) -> socket.socket | None:
    """Return a socket bound to this loopback port; None if the port is in use."""
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
