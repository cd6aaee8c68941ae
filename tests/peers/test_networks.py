"""Silent network cuts between network namespaces: no connection is reset, packets vanish."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.peers.talkers import TalkerProcess, talking, wait

DETECTION_S = 5.0
AGREEMENT_S = 1.0
BUSY_S = 2.0
"""Seconds that a busy machine may add before a process reads its clock."""
SHORT_S = 0.5
"""Short cut in seconds. Lost packets are sent again after 0.2, 0.6, 1.4 and 3.0 s: after a cut of a second
they arrive at 1.4 s, and no node is given up before 3.0 s."""
NAMES = ("a@left", "b@right")


def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Network:
    """Two namespaces, and a third with the bridge between them."""

    def __init__(self) -> None:
        self._tag = f"mmq{os.getpid()}"
        self.addresses = ["10.83.0.1", "10.83.0.2"]

    def _space(self, which: int | str) -> str:
        return f"{self._tag}-{which}"

    def make(self) -> None:
        hub = self._space("hub")
        for which in ("hub", 0, 1):
            ip("netns", "add", self._space(which))
            ip("-n", self._space(which), "link", "set", "lo", "up")
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for which, address in enumerate(self.addresses):
            space, port = self._space(which), f"port{which}"
            ip("-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", hub, "link", "set", port, "master", "bridge", "up")
            ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")

    def remove(self) -> None:
        for which in ("hub", 0, 1):
            ip("netns", "del", self._space(which), check=False)

    def prefix(self, which: int) -> list[str]:
        return ["ip", "netns", "exec", self._space(which)]

    def cut(self) -> float:
        """Drop all packets from now on. Return the time."""
        ip("-n", self._space("hub"), "link", "set", "port1", "nomaster")
        return time.monotonic()

    def heal(self) -> float:
        ip("-n", self._space("hub"), "link", "set", "port1", "master", "bridge")
        return time.monotonic()

    def cut_one_way(self) -> float:
        """Send the packets of the first node to an unused address. Return the time."""
        neighbour = ("neighbour", "replace", self.addresses[1], "lladdr", "02:00:00:00:00:99", "dev", "eth0")
        ip("-n", self._space(0), *neighbour, "nud", "permanent")
        return time.monotonic()

    def heal_one_way(self) -> float:
        ip("-n", self._space(0), "neighbour", "del", self.addresses[1], "dev", "eth0")
        return time.monotonic()


@pytest.fixture
def network() -> Iterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the ip command: run as root, apt-get install iproute2")
    made = Network()
    try:
        made.make()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"not allowed here ({error.stderr.strip()}): a container needs --privileged")
    try:
        yield made
    finally:
        made.remove()


def pair(network: Network) -> tuple[TalkerProcess, TalkerProcess]:
    addresses = {name: f"{address}:7000" for name, address in zip(NAMES, network.addresses, strict=True)}
    left, right = (TalkerProcess(name, addresses, network.prefix(which)) for which, name in enumerate(NAMES))
    return left, right


def downs_s(a: TalkerProcess, b: TalkerProcess, since_s: float) -> list[float]:
    """Return how long after a moment each side saw the other go down."""
    wait(lambda: a.of("down", b.name, since_s) and b.of("down", a.name, since_s))
    pairs = ((a, b), (b, a))
    return [one.of("down", other.name, since_s)[0].time_s - since_s for one, other in pairs]


def talk_again(a: TalkerProcess, b: TalkerProcess, since_s: float) -> None:
    wait(lambda: a.of("hundred", b.name, since_s) and b.of("hundred", a.name, since_s))


def test_both_sides_of_a_cut_go_down_in_time_and_up_after_the_heal(network: Network) -> None:
    a, b = pair(network)
    with talking(a, b):
        cut_s = network.cut()
        took_s = downs_s(a, b, cut_s)
        assert max(took_s) < DETECTION_S + BUSY_S and abs(took_s[0] - took_s[1]) < AGREEMENT_S + BUSY_S, (
            took_s
        )
        healed_s = network.heal()
        talk_again(a, b, healed_s)
        ups_s = [one.of("up", other.name, healed_s)[0].time_s - healed_s for one, other in ((a, b), (b, a))]
        assert max(ups_s) < 2 * (DETECTION_S + BUSY_S)


def test_a_short_cut_is_not_noticed_and_nothing_is_lost(network: Network) -> None:
    a, b = pair(network)
    with talking(a, b):
        cut_s = network.cut()
        wait(lambda: time.monotonic() - cut_s > SHORT_S)
        talk_again(a, b, network.heal())
        assert not a.of("down", b.name) and not b.of("down", a.name)


def test_a_network_that_is_cut_one_way_is_cut_for_both(network: Network) -> None:
    a, b = pair(network)
    with talking(a, b):
        took_s = downs_s(a, b, network.cut_one_way())
        assert max(took_s) < DETECTION_S + BUSY_S and abs(took_s[0] - took_s[1]) < AGREEMENT_S + BUSY_S, (
            took_s
        )
        talk_again(a, b, network.heal_one_way())
