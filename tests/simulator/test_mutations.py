"""Mutation tests of the checkers: the real code with one fault in it fails, and for the right reason.

Each mutation disables one safeguard, and comes with runs that need that safeguard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from mirrormq.broker.leases import lease_manager
from mirrormq.cluster import coordinator
from mirrormq.cluster.lifecycle import ApplicationLifecycle
from mirrormq.cluster.partitions import AUTOHEAL, PAUSE_MINORITY
from mirrormq.consensus import Majority, UnsafeTruncation, durable_states
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import Command, PutPolicy
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.consumer_turns import ConsumerTurns
from mirrormq.queues.message import Message
from mirrormq.queues.paged_queue import PagedQueue
from mirrormq.queues.queue import Queue
from mirrormq.ranges import range_protocol
from mirrormq.replication import promotion
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.replication.replica import Replica
from mirrormq.replication.replicating_backing import ReplicatingBackingQueue
from mirrormq.replication.ring import Completed, Ring
from mirrormq.replication.ring_messages import OperationBatch
from mirrormq.replication.ring_operations import AppendOperation
from mirrormq.simulator import checkers
from mirrormq.simulator.fault_plan import Fault
from mirrormq.simulator.shrinking import outcome
from mirrormq.simulator.world import SimulationOptions
from mirrormq.storage.journal import Journal
from mirrormq.wire.fields import Table

SEEDS = range(1, 61)
"""Seeds per mutation. A mutation that none of them finds fails the test."""

Mutation = Callable[[pytest.MonkeyPatch], None]


def skip_one_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip most syncs of the journal."""
    flush, count = Journal.flush, 0

    def forgetful(self: Journal, sync: bool) -> None:
        nonlocal count
        count += sync
        flush(self, sync and count % 8 == 0)

    monkeypatch.setattr(Journal, "flush", forgetful)


def skip_the_epoch_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a member accept a master of an earlier epoch."""
    receive = Ring.receive

    def gullible(self: Ring, sender: str, operation_batch: OperationBatch) -> None:
        if operation_batch.epoch < self.view.epoch and sender in self.view.members:
            if self._accept_history(operation_batch):
                self._accept_operations(operation_batch)
        else:
            receive(self, sender, operation_batch)

    monkeypatch.setattr(Ring, "receive", gullible)


def promote_an_unsynchronised_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promote the oldest live member, synchronised or not."""

    def rash(
        view: View,
        fates: dict[str, promotion.MemberFate],
        policy: promotion.PromotionRules,
        **facts: Any,
    ) -> View | promotion.QueueDown | promotion.QueueLost:
        everybody = view._replace(in_sync=frozenset(view.members))
        after = promotion.settle(everybody, fates, policy, **facts)
        return view if after is everybody else after

    monkeypatch.setattr(coordinator, "settle", rash)


def trust_every_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a full stop, promote the first member, whatever its disk has."""

    def gullible(view: View, hopes: tuple[str, ...], *others: Any) -> str:
        return hopes[0]

    monkeypatch.setattr(promotion, "_compare", gullible)


def count_votes_of_restored_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore that a node's statement shows a disk that went back."""
    monkeypatch.setattr(durable_states, "went_back", lambda known, stated: False)


def confirm_before_replication_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the master's operations as replicated everywhere."""
    settle = Ring._settle

    def hasty(self: Ring) -> None:
        settle(self)
        self.completed = Completed(self.received, max(self.completed.durable, self.durable))

    monkeypatch.setattr(Ring, "_settle", hasty)


def let_a_new_master_keep_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the master without a new epoch, so that its operations look like the old master's."""

    def lazy(view: View, *arguments: Any, **options: Any) -> View | promotion.QueueDown | promotion.QueueLost:
        after = promotion.settle(view, *arguments, **options)
        return after._replace(epoch=view.epoch) if isinstance(after, View) else after

    monkeypatch.setattr(coordinator, "settle", lazy)


def let_a_minority_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a node serve clients whatever nodes it reaches."""
    monkeypatch.setattr(ApplicationLifecycle, "_may_go_on", lambda self: True)


def let_fewer_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the connected nodes commit metadata without a majority."""
    monkeypatch.setattr(
        Majority, "electorate", lambda self, voters, reachable, me: voters & (reachable | {me})
    )


def let_dead_letters_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop dead letters before their target queues have confirmed them."""

    def careless(self: Queue, messages: Sequence[Message], reason: str) -> None:
        whole = self.backing.load_contents(messages)
        self.backing.acknowledge(messages)
        self._host.dead_letter(self, whole, reason, lambda safe: None)

    monkeypatch.setattr(Queue, "discard", careless)


def let_all_consumers_be_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore single active consumer."""
    begin = ConsumerTurns.__init__

    def generous(self: ConsumerTurns, single_active: bool) -> None:
        begin(self, False)

    monkeypatch.setattr(ConsumerTurns, "__init__", generous)


def forget_takes_with_their_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a new master ignore the messages that leases hold."""
    monkeypatch.setattr(lease_manager.LeaseManager, "begin", lambda self, *given: None)


def settle_whatever_the_lease_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client settle a number without a digest of the messages, which another side may have given it."""
    settle = range_protocol.settle

    def careless(queue: str, lease: str, *, number: int, digest: int) -> Table:
        return settle(queue, lease, number=number)

    monkeypatch.setattr(range_protocol, "settle", careless)


def take_back_without_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requeue messages without the redelivered flag."""
    requeue = PagedQueue.requeue

    def forgiving(self: PagedQueue, messages: Sequence[Message]) -> None:
        requeue(self, messages)
        for message in messages:
            message.redelivered = False

    monkeypatch.setattr(PagedQueue, "requeue", forgiving)


def keep_what_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a mirror keep messages that its master removed."""
    monkeypatch.setattr(MirrorCopy, "_remove", lambda self, ranges: None)


def let_what_is_given_back_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat requeued messages as acknowledged."""
    monkeypatch.setattr(ReplicatingBackingQueue, "requeue", ReplicatingBackingQueue.acknowledge)


def turn_batches_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reverse the order of messages that arrive together."""
    publish = Queue._publish_new

    def backwards(self: Queue, messages: list[Message], *given: Any) -> None:
        publish(self, messages[::-1], *given)

    monkeypatch.setattr(Queue, "_publish_new", backwards)


def spoil_what_mirrors_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a mirror store another body than it received. The last byte of the body precedes the frame end."""
    keep = MirrorCopy._keep

    def spoiling(self: MirrorCopy, append: AppendOperation) -> None:
        spoilt = [frames[:-2] + b"?" + frames[-1:] for frames in append.contents]
        keep(self, msgspec.structs.replace(append, contents=spoilt))

    monkeypatch.setattr(MirrorCopy, "_keep", spoiling)


def read_a_policy_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one of three nodes apply a command differently."""
    apply = MetadataState.apply
    states: list[MetadataState] = []

    def forgetful(self: MetadataState, command: Command) -> list[Change]:
        if isinstance(command, PutPolicy):
            if not any(known is self for known in states):
                states.append(self)  # of each run: three that founders begin with, then the three nodes'
            if any(known is self for known in states[5::6]):
                command = PutPolicy(msgspec.structs.replace(command.record, priority=7))
        return apply(self, command)

    monkeypatch.setattr(MetadataState, "apply", forgetful)


def never_ask_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a returning mirror send no sync request."""
    monkeypatch.setattr(Replica, "_ask_to_join", lambda self: None)


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


MUTATIONS: list[tuple[Mutation, Callable[[int], SimulationOptions], str]] = [
    (skip_one_fsync, power_fails_often, "ConfirmedIsKept"),
    (skip_the_epoch_check, masters_move, "RingsAgree"),
    (promote_an_unsynchronised_mirror, mirrors_lag, "ConfirmedIsKept"),
    (trust_every_disk, disks_fail, "ConfirmedIsKept"),
    (count_votes_of_restored_nodes, disks_go_back, "UnsafeTruncation"),
    (confirm_before_replication_ends, masters_die, "ConfirmedIsKept"),
    (let_a_new_master_keep_the_epoch, masters_die, "OneMaster"),
    (let_a_minority_go_on, one_is_cut_off, "MinorityIsSilent"),
    (let_fewer_agree, one_is_cut_off, "LogsAgree"),
    (let_all_consumers_be_active, consumers_are_far_away, "OneIsActive"),
    (forget_takes_with_their_master, masters_of_leases_die, "TakesAreRepeatable"),
    (settle_whatever_the_lease_has, two_sides_have_leases, "ConfirmedIsKept"),
    (let_dead_letters_go_at_once, masters_of_the_dying_die, "ConfirmedIsKept"),
    (take_back_without_a_mark, nodes_are_killed, "RedeliveryIsMarked"),
    (keep_what_has_gone, nodes_are_killed, "MirrorsAreEqual"),
    (let_what_is_given_back_go, nodes_are_killed, "AcksAreNotInvented"),
    (turn_batches_round, nodes_are_killed, "OrderIsKept"),
    (spoil_what_mirrors_keep, nodes_are_killed, "NothingIsInvented"),
    (read_a_policy_differently, policies_change, "MetadataIsEqual"),
    (never_ask_to_join, nodes_are_killed, "EverythingSettles"),
]
"""Mutation, the runs in which it matters, and the checker that finds it."""


@pytest.mark.parametrize(("mutation", "drawn", "found_by"), MUTATIONS)
def test_a_mutation_is_found(
    monkeypatch: pytest.MonkeyPatch,
    mutation: Mutation,
    drawn: Callable[[int], SimulationOptions],
    found_by: str,
) -> None:
    assert not outcome(drawn(SEEDS[0])).wrong, "without it all is well"
    mutation(monkeypatch)
    assert found_by in kinds_found(map(drawn, SEEDS), found_by)


def kinds_found(runs: Iterable[SimulationOptions], wanted: str) -> set[str]:
    """Return the violations that checkers report, until the expected one is among them."""
    found: set[str] = set()
    for options in runs:
        found |= outcome(options).kinds
        if wanted in found:
            break
    return found


def test_every_checker_has_a_mutation_that_it_finds() -> None:
    known = {
        name
        for name, kind in vars(checkers).items()
        if isinstance(kind, type) and hasattr(kind, "finish") and kind is not checkers.Checker
    }
    assert {found_by for _, _, found_by in MUTATIONS} - {UnsafeTruncation.__name__} == known
