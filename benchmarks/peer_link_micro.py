"""Microbenchmark of peer links: throughput between two processes, and latency of urgent messages.

    python benchmarks/peer_link_micro.py [--seconds 3]

One process sends as fast as the link allows, the other counts and acknowledges from time to time. Three
loads: raw messages of 1 MiB, raw messages of 100 bytes in batches of one turn of the loop, and an urgent
message every few milliseconds while 100 MiB messages use the other lane.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from typing import Any

import uvloop

from mirrormq.peers.link_loss import LinkLoss
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.runtime.log_output import Logger
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_links import PeerLinkOptions, PeerLinks

COOKIE = b"benchmark"
LOADS = {"1 MiB messages": 1024 * 1024, "100-byte messages": 100}
BATCH_BYTES = 64 * 1024
LONG_BYTES = 100 * 1024 * 1024


class End:
    """One side of a link: counts messages; the sending side receives the counts."""

    def __init__(self, name: str, *, counts: bool) -> None:
        quiet = Logger(lambda *_: None, "peers")
        self.links = PeerLinks(PeerLinkOptions(PeerIdentity(name), COOKIE), self, quiet)
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self.relief = asyncio.Event()
        self.answered = asyncio.Event()
        self.answer = b""
        self._counts = counts

    def on_up(self, peer: str, session: int) -> None:
        self.up.set()

    def on_down(self, peer: str, loss: LinkLoss) -> None:
        self.down.set()

    def on_relief(self, peer: str) -> None:
        self.relief.set()

    def on_slept(self, slept_ms: int) -> None: ...

    def on_message(self, peer: str, payload: Any) -> None:
        if self._counts:
            if len(payload) < 100:
                self.links.send(peer, payload, urgent=True)
        else:
            self.answer = payload
            self.answered.set()

    async def ask(self, *, urgent: bool) -> float:
        """Return the time until the other side has replied to a small message."""
        began = time.perf_counter()
        self.answered.clear()
        self.links.send("receiver@b", b"?", urgent=urgent)
        await self.answered.wait()
        return time.perf_counter() - began


async def send_load(end: End, size: int, seconds: float) -> tuple[int, float]:
    """Send messages of one size for a time; return how many arrived and in which time."""
    payload, sent = b"x" * size, 0
    send = end.links.send
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(max(BATCH_BYTES // size, 1)):
            send("receiver@b", payload)
            sent += 1
        if end.links.congested("receiver@b"):
            end.relief.clear()
            await end.relief.wait()
        else:
            await asyncio.sleep(0)
    await end.ask(urgent=False)
    return sent, time.perf_counter() - began


async def send_urgent(end: End, seconds: float) -> list[float]:
    """Return the sorted round-trip times of urgent messages beside long ones."""
    long, times = b"y" * LONG_BYTES, []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if end.links.queued_bytes("receiver@b") < LONG_BYTES:
            end.links.send("receiver@b", long)
        times.append(await end.ask(urgent=True))
        await asyncio.sleep(0.005)
    return sorted(times)


async def measure(port: int, seconds: float) -> None:
    end = End("sender@a", counts=False)
    await end.links.start("127.0.0.1", 0)
    end.links.add_peer(PeerAddress("receiver@b", "127.0.0.1", port))
    await end.up.wait()
    for name, size in LOADS.items():
        sent, took = await send_load(end, size, seconds)
        print(f"{name}: {sent * size / took / 1e6:,.0f} MB/s, {sent / took:,.0f} messages/s")
    times = await send_urgent(end, seconds)
    middle, high = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"urgent beside 100 MiB messages: p50 {middle * 1e3:.1f} ms, p99 {high * 1e3:.1f} ms round trip")
    await end.links.stop()


async def receive() -> None:
    end = End("receiver@b", counts=True)
    print(await end.links.start("127.0.0.1", 0), flush=True)
    await end.down.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    uvloop.install()
    if options.receive:
        asyncio.run(receive())
        return
    command = [sys.executable, __file__, "--receive"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            asyncio.run(measure(int(process.stdout.readline()), options.seconds))
        finally:
            process.kill()


if __name__ == "__main__":
    main()
