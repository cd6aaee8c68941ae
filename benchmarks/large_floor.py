"""Floor of large persistent bodies: the CPU time of the system calls alone, without a broker.

    python -m benchmarks.large_floor                  1 MiB, 64 KiB, and 64 KiB to fifty consumers

One process receives bodies from a socket, writes them into files of 64 MiB, syncs after each group, sends
every body on, and unlinks a file when the next one begins. It does nothing else: no frames, no checksums, no
queues. The lines `large-1m`, `large-64k` and `large-fanout` cannot cost less.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

KIB, MIB = 1 << 10, 1 << 20
FILE_BYTES = 64 * MIB
READ_BYTES = 256 * KIB


class Work(NamedTuple):
    """Bodies of one measurement."""

    body_bytes: int
    bodies: int
    copies: int
    """Times that each body is sent."""
    group: int
    """Bodies between two syncs: about as many as a turn of the broker takes."""


WORKS = (Work(MIB, 300, 1, 4), Work(64 * KIB, 4000, 1, 30), Work(64 * KIB, 200, 50, 2))


def client(work: Work, port: int) -> None:
    """Publish all bodies on one connection, and receive all copies on another one."""
    source, sink = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))

    def receive() -> None:
        buffer, missing = bytearray(READ_BYTES), work.body_bytes * work.bodies * work.copies
        while missing:
            missing -= sink.recv_into(buffer)

    receiver = threading.Thread(target=receive)
    receiver.start()
    body = bytes(work.body_bytes)
    for _ in range(work.bodies):
        source.sendall(body)
    receiver.join()


def measure(work: Work) -> dict[str, float]:
    """Return CPU microseconds by system call, for each body that is sent."""
    spent_s: dict[str, float] = defaultdict(float)

    def timed(call: str, function: Callable[..., object], *arguments: object) -> None:
        began_s = time.process_time()
        function(*arguments)
        spent_s[call] += time.process_time() - began_s

    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as directory:
        child = os.fork()
        if not child:
            client(work, listener.getsockname()[1])
            os._exit(0)
        (source, _), (sink, _) = listener.accept(), listener.accept()
        view, file, path, end = memoryview(bytearray(work.body_bytes)), -1, Path(), FILE_BYTES

        def receive() -> None:
            at = 0
            while at < work.body_bytes:
                at += source.recv_into(view[at:])

        for number in range(work.bodies):
            timed("read", receive)
            if end >= FILE_BYTES:
                if file >= 0:
                    os.close(file)
                    timed("unlink", path.unlink)
                path, end = Path(directory, str(number)), 0
                file = os.open(path, os.O_CREAT | os.O_RDWR)
            timed("pwrite", os.pwrite, file, view, end)
            end += work.body_bytes
            if number % work.group == 0:
                timed("fdatasync", os.fdatasync, file)
            for _ in range(work.copies):
                timed("write", sink.sendall, view)
        os.close(file)
        timed("unlink", path.unlink)
        os.waitpid(child, 0)
    return {call: taken_s / work.bodies / work.copies * 1e6 for call, taken_s in spent_s.items()}


def main() -> None:
    """Measure all works."""
    for work in WORKS:
        spent_us = measure(work)
        parts = ", ".join(f"{call} {taken_us:.1f}" for call, taken_us in spent_us.items())
        print(f"{work.body_bytes // KIB} KiB to {work.copies}: {sum(spent_us.values()):.1f} µs ({parts})")
    print(f"load average: {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
