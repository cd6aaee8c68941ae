"""Node as a separate process: sends to its peers continuously and records events.

    python -m tests.peers.talker NAME HOST:PORT PEER=HOST:PORT…

Each line of its output is JSON: the time (of the clock that all processes of a machine share), the event,
the peer and a value. It sends the numbers 1, 2, 3… of the session to each peer, in a mix of small and
large messages. It reports "disorder" if a received number does not follow the previous one. Each line of
its input blocks its loop for that many seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import msgspec
import uvloop

from mirrormq.peers.link_loss import LinkLoss
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.runtime.peer_dialler import PeerAddress
from mirrormq.runtime.peer_links import PeerLinkOptions, PeerLinks

PAUSE_S = 0.02


class Numbered(msgspec.Struct, tag=1):
    session: int
    number: int
    filler: bytes


class Talker:
    """Sender and checker of numbers."""

    def __init__(self, name: str) -> None:
        options = PeerLinkOptions(PeerIdentity(name), b"talkers", message_type=Numbered)
        self.links = PeerLinks(options, self, self)
        self._sent: dict[str, int] = {}
        self._got: dict[str, int] = {}

    def tell(self, event: str, peer: str = "", value: Any = None) -> None:
        print(json.dumps([time.monotonic(), event, peer, value]), flush=True)

    def info(self, event: str, **facts: Any) -> None:
        """Ignore log lines."""

    warning = error = info

    def on_up(self, peer: str, session: int) -> None:
        self._sent[peer] = self._got[peer] = 0
        self.tell("up", peer, session)

    def on_down(self, peer: str, loss: LinkLoss) -> None:
        self.tell("down", peer, loss.text)

    def on_relief(self, peer: str) -> None: ...

    def on_slept(self, slept_ms: int) -> None:
        self.tell("slept", "", slept_ms)

    def on_message(self, peer: str, payload: Numbered) -> None:
        if payload.number != self._got[peer] + 1:
            self.tell("disorder", peer, [self._got[peer], payload.number])
        self._got[peer] = payload.number
        if payload.number % 100 == 0:
            self.tell("hundred", peer, payload.number)

    async def talk(self) -> None:
        while True:
            for peer in self.links.peers:
                if not self.links.congested(peer):
                    number = self._sent[peer] = self._sent[peer] + 1
                    size = 300_000 if number % 20 == 0 else 10
                    self.links.send(peer, Numbered(self.links.session(peer) or 0, number, bytes(size)))
            await asyncio.sleep(PAUSE_S)

    def read_input(self) -> None:
        if line := sys.stdin.readline():
            time.sleep(float(line))
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin)


def address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def main(name: str, listen: str, peers: list[str]) -> None:
    talker = Talker(name)
    await talker.links.start(*address(listen))
    for peer in peers:
        peer_name, where = peer.split("=")
        talker.links.add_peer(PeerAddress(peer_name, *address(where)))
    asyncio.get_running_loop().add_reader(sys.stdin, talker.read_input)
    talker.tell("started")
    await talker.talk()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
