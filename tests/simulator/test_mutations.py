"""Mutation tests of the checkers: the real code with one fault in it fails, and for the right reason.

Each mutation disables one safeguard, and comes with runs that need that safeguard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from mirrormq.cluster import coordinator
from mirrormq.cluster.lifecycle import ApplicationLifecycle
from mirrormq.cluster.rescues import Rescues
from mirrormq.consensus import Majority, durable_states
from mirrormq.leases import lease_manager
from mirrormq.metadata import ring_commands
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import Command, PutPolicy
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.consumer_turns import ConsumerTurns
from mirrormq.queues.message import Message
from mirrormq.queues.paged_queue import PagedQueue
from mirrormq.queues.publish_ids import SeenPublishIds
from mirrormq.queues.publish_intake import PublishIntake
from mirrormq.queues.queue import Queue
from mirrormq.ranges import range_protocol
from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.replication import promotion
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.replication.replica import Replica
from mirrormq.replication.replicating_backing import ReplicatingBackingQueue
from mirrormq.replication.ring import Completed, Ring
from mirrormq.replication.ring_messages import OperationBatch
from mirrormq.replication.ring_operations import AppendOperation
from mirrormq.simulator import checkers, link_checkers, pipeline_checkers
from mirrormq.simulator.shrinking import outcome
from mirrormq.simulator.world import SimulationOptions
from mirrormq.storage.journal import Journal
from mirrormq.wire.fields import Table
from tests.simulator.failover_mutations import FAILOVER_MUTATIONS
from tests.simulator.fork_mutations import FORK_MUTATIONS, leave_metadata_incomplete
from tests.simulator.link_mutations import LINK_MUTATIONS
from tests.simulator.mutation_runs import (
    consumers_are_far_away,
    disks_fail,
    disks_go_back,
    masters_die,
    masters_move,
    masters_of_keepers_die,
    masters_of_leases_die,
    masters_of_producers_die,
    masters_of_readers_die,
    masters_of_the_dying_die,
    members_are_upgraded,
    mirrors_lag,
    nodes_are_killed,
    one_is_cut_off,
    policies_change,
    power_fails_often,
    the_last_disk_fails,
    two_sides_continue,
    two_sides_have_leases,
)

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
    """Let a mirror accept a master of an earlier epoch."""
    receive = Ring.receive

    def gullible(self: Ring, sender: str, operation_batch: OperationBatch) -> None:
        earlier = operation_batch.epoch < self.view.epoch and sender in self.view.members
        if earlier and not self.is_master:
            if self._accept_history(operation_batch):
                self._accept_operations(operation_batch)
        else:
            receive(self, sender, operation_batch)

    monkeypatch.setattr(Ring, "receive", gullible)


def promote_an_unsynchronised_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promote the oldest live member, synchronised or not."""

    def rash(
        view: View,
        statuses: dict[str, promotion.MemberStatus],
        policy: promotion.PromotionRules,
        **facts: Any,
    ) -> View | promotion.QueueDown | promotion.QueueLost:
        everybody = view._replace(in_sync=frozenset(view.members))
        after = promotion.settle(everybody, statuses, policy, **facts)
        return view if after is everybody else after

    monkeypatch.setattr(coordinator, "settle", rash)


def trust_every_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a full stop, promote the first member, whatever its disk has."""

    def gullible(view: View, hopes: tuple[str, ...], *others: Any) -> str:
        return hopes[0]

    monkeypatch.setattr(promotion, "_compare", gullible)


def forget_former_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that leaves the in-sync set is not remembered, so the last one serves whatever its disk has, and
    the others drop what it lacks."""
    monkeypatch.setattr(ring_commands, "_former", lambda state, queue, after: ())
    monkeypatch.setattr(Rescues, "follow", lambda self, record: None)


def count_votes_of_restored_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore that a node's statement shows a disk that went back."""
    monkeypatch.setattr(durable_states, "went_back", lambda known, stated: False)


def confirm_before_replication_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the master's operations as replicated everywhere."""
    settle = Ring.settle

    def hasty(self: Ring) -> bool:
        settle(self)
        self.completed = Completed(self.received, max(self.completed.durable, self.durable))
        return True

    monkeypatch.setattr(Ring, "settle", hasty)


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
    publish = PublishIntake._publish_new

    def backwards(self: PublishIntake, messages: list[Message], *given: Any) -> None:
        publish(self, messages[::-1], *given)

    monkeypatch.setattr(PublishIntake, "_publish_new", backwards)


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

    def forgetful(self: MetadataState, command: Command, log_index: int = 0) -> list[Change]:
        if isinstance(command, PutPolicy):
            if not any(known is self for known in states):
                states.append(self)  # of each run: three that founders begin with, then the three nodes'
            if any(known is self for known in states[5::6]):
                command = PutPolicy(msgspec.structs.replace(command.record, priority=7))
        return apply(self, command, log_index)

    monkeypatch.setattr(MetadataState, "apply", forgetful)


def never_ask_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a returning mirror send no sync request."""
    monkeypatch.setattr(Replica, "_ask_to_join", lambda self: None)


def forget_publish_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not record the publish ids of clients."""
    monkeypatch.setattr(SeenPublishIds, "record", lambda self, highest, now_ms: [])


def number_rows_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a range read count rows from the first sequence on, as if no message between them were gone."""
    add = BatchBuilder.add

    def counting(self: BatchBuilder, sequences: Sequence[int], *columns: Any) -> None:
        first = sequences[0] if sequences else 0
        add(self, range(first, first + len(sequences)), *columns)

    monkeypatch.setattr(BatchBuilder, "add", counting)


MUTATIONS: list[tuple[Mutation, Callable[[int], SimulationOptions], str]] = [
    (skip_one_fsync, power_fails_often, "ConfirmedIsKept"),
    (skip_the_epoch_check, masters_move, "RingsAgree"),
    (promote_an_unsynchronised_mirror, mirrors_lag, "ConfirmedIsKept"),
    (trust_every_disk, disks_fail, "ConfirmedIsKept"),
    (forget_former_members, the_last_disk_fails, "ConfirmedIsKept"),
    (count_votes_of_restored_nodes, disks_go_back, "LogsAgree"),
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
    (forget_publish_ids, masters_of_producers_die, "PublishIdsAreKeptOnce"),
    (number_rows_without_gaps, masters_of_readers_die, "ReadsAreRepeatable"),
    *[(mutation, masters_of_keepers_die, found_by) for mutation, found_by in FAILOVER_MUTATIONS],
    *[(mutation, two_sides_continue, found_by) for mutation, found_by in FORK_MUTATIONS],
    (leave_metadata_incomplete, members_are_upgraded, "MetadataIsEqual"),
    *LINK_MUTATIONS,
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
        for name, kind in (vars(checkers) | vars(pipeline_checkers) | vars(link_checkers)).items()
        if isinstance(kind, type) and hasattr(kind, "finish") and kind is not checkers.Checker
    }
    assert {found_by for _, _, found_by in MUTATIONS} == known
