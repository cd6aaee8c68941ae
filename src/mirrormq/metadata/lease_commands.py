"""What commands about leases do to the state.

A lease's record is what makes it last: it is on every node, and in one order with who is master. Four rules:

1.  Messages belong to a lease once `TakeMessages` is applied, and not before; a master that has lost its
    place, or its memory, can have set nothing aside.
2.  A take has a number that grows, so asking for it once more finds it here.
3.  What is settled stays in the record until the queue is rid of it for good. A master that dies in between
    leaves it to the next one to do; else it would come back to life.
4.  A lease that is given up goes, unless 3 needs it. Then it is kept, without its takes. One that held
    messages is kept too, so that a client that settles them learns that they went back to the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Lease
from mirrormq.ranges import range_limits
from mirrormq.ranges.spans import PAIR, Span, below, joined, pack, unpack, without

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def take_messages(state: MetadataState, command: c.TakeMessages) -> None:
    """A lease takes messages."""
    key = state.queue_keys.get(command.queue_id)
    if key is None:
        return
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
    """A lease is done with some of its messages."""
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
    """The queue is rid of what was settled."""
    lease = state.leases.get((command.queue_id, command.lease))
    if lease is None:
        return
    left = without(unpack(lease.settled), unpack(command.spans))
    if lease.ended and not left and not lease.lost_from:
        state.remove(lease)
    else:
        state.store(msgspec.structs.replace(lease, settled=pack(left)))


def end_lease(state: MetadataState, command: c.EndLease) -> None:
    """A lease is given up."""
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
    """Forget the oldest leases of a queue that are kept only to tell their clients, if there are too many."""
    ended = [each for each in state.leases_of(queue_id) if each.ended and not each.settled]
    for each in ended[: -range_limits.ENDED_LEASES_PER_QUEUE_MAX]:
        state.remove(each)


def held_by(lease: Lease) -> list[Span]:
    """The numbers that a lease holds."""
    return joined([one for take in lease.takes for one in unpack(take.spans)])


def spans_held(lease: Lease) -> int:
    """How many stretches its record has."""
    return sum([len(take.spans) for take in lease.takes]) // PAIR.size
