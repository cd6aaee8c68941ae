"""Lease commands: how leases change the metadata state.

The record of a lease makes it durable: every node has it, in one order with the changes of master. Four
rules:

1.  Messages belong to a lease once `TakeMessages` is applied, and not before. A master that has lost its
    role or its memory has therefore reserved nothing.
2.  Numbers of takes grow, so a repeated request for a take finds it in the record.
3.  Settled messages stay in the record until the queue has removed them for good. If the master fails in
    between, the next master removes them; otherwise they would be delivered again.
4.  A lease that ends is deleted, unless rule 3 needs it. Then the record stays, without its takes. A lease
    that held messages stays, too, so that a client that settles them learns of their return to the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Lease
from mirrormq.ranges import range_limits
from mirrormq.sequences.spans import PAIR, Span, below, joined, pack, unpack, without

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def take_messages(state: MetadataState, command: c.TakeMessages) -> None:
    """Add a take to a lease, and create the lease if needed."""
    key = state.queue_keys.get(command.queue_id)
    if key is None:
        return
    # Only the current master in its current incarnation has reserved the messages (rule 1).
    ring, node = state.queues[key].ring, state.nodes.get(command.node)
    if (ring.epoch, ring.master) != (command.epoch, command.node) or state.queues[key].waits_for:
        return
    if node is not None and node.incarnation != command.incarnation:
        return
    before = state.leases.get((command.queue_id, command.lease))
    if before is None or before.ended:
        settled = b"" if before is None else before.settled
        before = Lease(*key, command.lease, command.queue_id, command.user, settled=settled)
    if command.take.number <= before.number or spans_held(before) > range_limits.LEASE_SPANS_MAX:
        return
    state.store(
        msgspec.structs.replace(
            before,
            number=command.take.number,
            takes=(*before.takes, command.take) if command.take.count else before.takes,
            idle_ms=command.idle_ms,
        )
    )


def settle_lease(state: MetadataState, command: c.SettleLease) -> None:
    """Move messages of a lease's takes to its settled ones."""
    lease = state.leases.get((command.queue_id, command.lease))
    if lease is None:
        return
    takes = []
    settled = unpack(lease.settled)
    for take in lease.takes:
        held = unpack(take.spans)
        done = below(held, command.to) if take.number <= command.number else []
        settled += done
        left = without(held, done)
        if left:
            takes.append(msgspec.structs.replace(take, spans=pack(left)) if done else take)
    changed = msgspec.structs.replace(lease, takes=tuple(takes), settled=pack(joined(settled)))
    state.store(changed)


def forget_settled(state: MetadataState, command: c.ForgetSettled) -> None:
    """Drop settled messages that the queue has removed."""
    lease = state.leases.get((command.queue_id, command.lease))
    if lease is None:
        return
    left = without(unpack(lease.settled), unpack(command.spans))
    if lease.ended and not left and not lease.lost_from:
        state.remove(lease)
    else:
        state.store(msgspec.structs.replace(lease, settled=pack(left)))


def end_lease(state: MetadataState, command: c.EndLease) -> None:
    """End a lease. A stale command, for another take than the last, changes nothing."""
    lease = state.leases.get((command.queue_id, command.lease))
    if lease is None or command.number not in (-1, lease.number):
        return
    if lease.ended:
        return
    lost_from = min((take.number for take in lease.takes), default=0)
    if lease.settled or lost_from:
        state.store(msgspec.structs.replace(lease, takes=(), ended=True, lost_from=lost_from))
    else:
        state.remove(lease)
    if lost_from:
        _forget_ended(state, lease.queue_id)


def _forget_ended(state: MetadataState, queue_id: int) -> None:
    """Forget the oldest ended leases of a queue that are kept only for their clients, if there are too
    many."""
    ended = [lease for lease in state.leases_of(queue_id) if lease.ended and not lease.settled]
    for lease in ended[: -range_limits.ENDED_LEASES_PER_QUEUE_MAX]:
        state.remove(lease)


def held_by(lease: Lease) -> list[Span]:
    """Return the spans of sequences that a lease holds."""
    return joined([span for take in lease.takes for span in unpack(take.spans)])


def spans_held(lease: Lease) -> int:
    """Return the number of spans in a lease's record."""
    return sum([len(take.spans) for take in lease.takes]) // PAIR.size
