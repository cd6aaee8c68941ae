"""Simulated runs that need the safeguards which the mutations disable."""

from __future__ import annotations

from mirrormq.cluster.partitions import AUTOHEAL, PAUSE_MINORITY
from mirrormq.simulator.fault_plan import UPGRADE, Fault
from mirrormq.simulator.world import SimulationOptions

Planned = tuple[str, int, int, str, int]
"""Kind, start, end, nodes and random number of a fault."""


def run(seed: int, *faults: Planned, queues: tuple[str, ...] = ("m0",)) -> SimulationOptions:
    """Return a run with three nodes and the given faults."""
    schedule = tuple(
        Fault(number, kind, begins, ends, tuple(nodes), dice)
        for number, (kind, begins, ends, nodes, dice) in enumerate(faults)
    )
    return SimulationOptions(seed, 3, PAUSE_MINORITY, 4000, queues=queues, schedule=schedule)


def power_fails_often(seed: int) -> SimulationOptions:
    """Cut the power often, also of a queue with only one copy."""
    cuts: list[Planned] = [("power", at, at + 100, "abc"[at // 400 % 3], 0) for at in range(400, 3600, 400)]
    return run(seed, *cuts, queues=("m0", "u1"))


def disks_fail(seed: int) -> SimulationOptions:
    """Stop all nodes at once, and lose, corrupt or restore an older copy of one node's disk."""
    nodes = "abc"[seed % 3 :] + "abc"[: seed % 3]
    return run(seed, ("disks", 1500, 3000, nodes, seed * 4))


def the_last_disk_fails(seed: int) -> SimulationOptions:
    """All nodes stop in good order, and the disk of the last one is lost, garbled, or older."""
    nodes = "abc"[seed % 3 :] + "abc"[: seed % 3]
    return run(seed, ("shutdown", 1000, 3000, nodes, 400 << 8 | seed << 2 | seed & 1))


def disks_go_back(seed: int) -> SimulationOptions:
    """Restore an older disk after one node was away, so that only the restored node and one other have
    committed entries."""
    nodes = "abc"[seed % 3 :] + "abc"[: seed % 3]
    stops: list[Planned] = [("policy", at, at, "a", at % 3) for at in range(1600, 2900, 100)]
    return run(seed, *stops, ("clog", 1500, 3000, nodes[0] + nodes[2], 400), ("disks", 1500, 3000, nodes, 8))


def masters_die(seed: int) -> SimulationOptions:
    """Kill masters while their messages are delayed."""
    late: list[Planned] = [("clog", 500, 3500, way, 200) for way in ("ab", "ac", "ba", "bc", "ca", "cb")]
    deaths: list[Planned] = [
        ("power", 1000 + 900 * at, 1400 + 900 * at, name, 0) for at, name in enumerate("abc")
    ]
    return run(seed, *late, *deaths)


def masters_of_the_dying_die(seed: int) -> SimulationOptions:
    """Kill masters repeatedly with long delays: one run of fifteen loses a dead letter."""
    late: list[Planned] = [("clog", 500, 5500, way, 400) for way in ("ab", "ac", "ba", "bc", "ca", "cb")]
    deaths: list[Planned] = [("kill", 600 + 400 * at, 700 + 400 * at, "abc"[at % 3], 0) for at in range(13)]
    return run(seed, *late, *deaths, queues=("m0", "d1", "d2", "d3"))._replace(load_ms=6000)


def consumers_are_far_away(seed: int) -> SimulationOptions:
    """Delay one node's messages: two concurrent consumers receive messages in another order."""
    late: list[Planned] = [("clog", 500, 3500, way, 300) for way in ("ab", "ca", "bc")]
    return run(seed, *late, queues=("m0", "s1", "s2"))._replace(consumers=3)


def nodes_are_killed(seed: int) -> SimulationOptions:
    """Kill nodes one after the other, while the links between the others work."""
    return run(seed, *[("kill", 900 + 900 * at, 1000 + 900 * at, name, 0) for at, name in enumerate("abc")])


def policies_change(seed: int) -> SimulationOptions:
    return run(seed, *[("policy", at, at, "a", dice) for dice, at in enumerate(range(500, 3500, 500))])


def masters_of_leases_die(seed: int) -> SimulationOptions:
    return masters_die(seed)._replace(leasers=3, consumers=0)


def masters_of_producers_die(seed: int) -> SimulationOptions:
    return masters_die(seed)._replace(queues=("m0", "i1"), producers=3)


def masters_of_readers_die(seed: int) -> SimulationOptions:
    return masters_die(seed)._replace(readers=3)


def two_sides_continue(seed: int) -> SimulationOptions:
    """Partition the cluster so that both sides confirm messages, and few are consumed."""
    apart: Planned = ("partition", 1000, 8000, "ab"[seed % 2], 0)
    return run(seed, apart)._replace(nodes=2, mode=AUTOHEAL, load_ms=9000, consumers=1)


def two_sides_have_leases(seed: int) -> SimulationOptions:
    """Partition the cluster so that both sides continue, and clients move between them."""
    apart: Planned = ("partition", 1000, 8000, "a", 0)
    options = run(seed, apart)._replace(nodes=2, mode=AUTOHEAL, load_ms=9000)
    return options._replace(leasers=3, consumers=0)


def masters_move(seed: int) -> SimulationOptions:
    moves: list[Planned] = [("move", at, at, "abc"[at // 100 % 3], 0) for at in range(500, 3500, 100)]
    return run(seed, *moves, ("clog", 500, 3500, "ab", 300))


def mirrors_lag(seed: int) -> SimulationOptions:
    manual: Planned = ("policy", 200, 200, "a", 2)
    deaths: list[Planned] = [
        ("kill", 500 + 300 * at, 600 + 300 * at, name, 0) for at, name in enumerate("abc")
    ]
    return run(seed, manual, *deaths, ("kill", 2500, 3500, "a", 0), ("kill", 3000, 3500, "b", 0))


def one_is_cut_off(seed: int) -> SimulationOptions:
    """Isolate each node in turn, so that each is the master of some queue, for longer than the detection
    time."""
    options = run(seed, ("partition", 1000, 11_000, "abc"[seed % 3], 0), queues=("u0", "u1", "u2"))
    return options._replace(load_ms=11_000)


def members_are_upgraded(seed: int) -> SimulationOptions:
    """Upgrade the nodes one by one, each after its older program has made a snapshot."""
    upgrades: list[Planned] = [
        (UPGRADE, 900 + 900 * at, 1200 + 900 * at, "abc"[(at + seed) % 3], 1) for at in range(3)
    ]
    return run(seed, *upgrades)


def masters_of_keepers_die(seed: int) -> SimulationOptions:
    """Consumers on surviving nodes keep what they hold, while what nodes say takes its time. In every other
    run queues have one mirror, so that a node without a copy has consumers, too; else the ring is slow."""
    policy: Planned = ("policy", 100, 100, "a", seed % 2)
    slow = 60 if seed % 2 else 300
    late: list[Planned] = [("clog", 500, 5000, way, slow) for way in ("ab", "bc", "ca")]
    late += [("clog", 500, 5000, way, 60 if seed % 2 else 5) for way in ("ac", "ba", "cb")]
    deaths: list[Planned] = [
        ("kill", 1500 + 1500 * at, 1700 + 1500 * at, name, 0) for at, name in enumerate("abc")
    ]
    options = run(seed, policy, *late, *deaths)
    return options._replace(load_ms=6000, publishers=6, consumers=3, holders=3, redeliver="lost")
