"""Lease manager: takes, settles and releases leases of this node's queues, and keeps them across masters.

A lease is a metadata record (`metadata.lease_commands`), so every node knows it. The master adds the
messages themselves. A take has three steps:

    1.  messages leave the ready ones, some thousand in each turn of the loop
    2.  the queue reports that they are safe: on the disk of every synchronised mirror
    3.  the record is proposed; once applied, the messages belong to the lease, and the client gets its reply

If the master fails before step 3, nothing has happened: for the next master the messages are ready. If it
fails afterwards, the next master reads the record before it serves clients, and sets the same messages
aside (`begin`). A client without a reply repeats the request with the same number and finds the take in
the record.

Settling works the other way round. First the record marks the messages as settled, then the queue removes
them. When every disk has removed them, the record forgets them too.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from mirrormq.errors import NotFound, PreconditionFailed
from mirrormq.leases.lease_host import LeaseHost, RequestChannel
from mirrormq.leases.lease_owners import LeaseOwners, holds_nothing
from mirrormq.leases.lease_rows import lease_entry, lease_row
from mirrormq.leases.lease_take import LeaseTaking
from mirrormq.leases.lease_writes import LeaseWrites
from mirrormq.metadata import commands, records
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.lease_commands import held_by, spans_held
from mirrormq.metadata.store import INTERNAL_USER
from mirrormq.queues import lease_operations
from mirrormq.queues.queue import Queue
from mirrormq.ranges import error_reasons, range_limits, range_protocol
from mirrormq.ranges.range_request import (
    NUMBER_MAX,
    Answered,
    RangeReply,
    RangeRequest,
    Refused,
    RequestValues,
    reply,
)
from mirrormq.sequences.spans import Span, below, count_of, digest, pack, unpack, without

RECHECK_MS = 1_000
"""Milliseconds between two checks of a take in progress: its queue may have got another master."""


class LeaseManager:
    """Leases of all queues whose master is this node."""

    def __init__(self, broker: LeaseHost) -> None:
        self._broker = broker
        self._taking: dict[records.LeaseKey, LeaseTaking] = {}
        self._leasing: deque[LeaseTaking] = deque()
        """Takes that still collect messages."""
        self._used_ms: dict[records.LeaseKey, int] = {}
        """Time of the last use of each lease of this node's queues."""
        self._empty: set[records.LeaseKey] = set()
        """Leases with a scheduled check whether they are empty and their owner is silent."""
        self._owners = LeaseOwners(broker.clock)
        self._writes = LeaseWrites(broker)
        self.awake = False
        self.deleted = False

    # -- requests -------------------------------------------------------------------------------

    def asked(
        self,
        record: records.Queue,
        queue: Queue,
        range_request: RangeRequest,
        answered: Answered,
        refused: Refused,
    ) -> None:
        """Process a request about leases of a queue of this node."""
        values = range_request.values()
        ask = values.text("ask")
        if ask == range_protocol.LEASES:
            leases = self._broker.metadata.state.leases_of(record.queue_id)
            answered(self._list([lease for lease in leases if not lease.ended]))
            return
        name = values.text("lease")
        if not 0 < len(name.encode("utf-8", "surrogateescape")) <= range_limits.LEASE_NAME_BYTES_MAX:
            most = range_limits.LEASE_NAME_BYTES_MAX
            raise PreconditionFailed(f"a lease's name has 1 to {most} bytes")
        key = (record.queue_id, name)
        self._owners.check(key, values, self._used_ms.get(key), busy=key in self._taking)
        if ask == range_protocol.TAKE:
            self._take(record, queue, name, range_request, answered, refused)
            return
        if ask == range_protocol.SETTLE and holds_nothing(self._broker.metadata.state, record, name, values):
            answered(reply(range_protocol.counted_answer(0)))
            return
        lease = self._find(record, name)
        self._use(lease)
        if ask == range_protocol.SETTLE:
            self._settle(lease, values, range_request.user, answered, refused)
        elif ask == range_protocol.RELEASE and values.has("empty") and lease.takes:
            answered(reply(range_protocol.counted_answer(0)))
        elif ask == range_protocol.RELEASE:
            self.release(lease, queue, range_request.user, answered, refused)
        else:
            answered(reply({}))

    def _find(self, record: records.Queue, name: str) -> records.Lease:
        lease = self._broker.metadata.state.leases.get((record.queue_id, name))
        if lease is None or lease.ended:
            where = f"queue '{record.name}' in vhost '{record.vhost}'"
            raise NotFound(f"no lease '{name}' of {where}", reason=error_reasons.NO_LEASE)
        return lease

    def listed(self, channel: RequestChannel) -> RangeReply:
        """Return all leases of the client's vhost whose queues it may read."""
        vhost, may = channel.vhost.name, self._broker.permissions.check
        leases = [lease for lease in self._broker.metadata.state.leases.values() if not lease.ended]
        return self._list(
            [
                lease
                for lease in leases
                if lease.vhost == vhost and may(channel.user.name, vhost, lease.queue, "read")
            ]
        )

    def _list(self, leases: list[records.Lease]) -> RangeReply:
        entries = [lease_entry(lease, self.last_used_ms(lease)) for lease in leases]
        return reply({}, range_protocol.leases_answer(entries))

    def last_used_ms(self, lease: records.Lease) -> int | None:
        """Return the time of the last use; None if only another node knows it."""
        return self._used_ms.get(lease.key)

    # -- takes ----------------------------------------------------------------------------------

    def _take(
        self, record: records.Queue, queue: Queue, name: str, range_request: RangeRequest, answered: Answered,
        refused: Refused,
    ) -> None:  # fmt: skip
        values = range_request.values()
        number = values.number("number")
        key = (record.queue_id, name)
        lease = self._broker.metadata.state.leases.get(key)
        if lease is not None and not lease.ended:
            self._use(lease)
            # A repeated take must return the same messages, also from a new master.
            if number <= lease.number:
                answered(_repeated_take(lease, number))
                return
        taking = self._taking.get(key)
        if taking is not None and taking.queue is not queue:
            self._redirect(taking)
            taking = self._taking.get(key)
        if taking is not None and taking.number != number:
            raise PreconditionFailed(f"take {taking.number} of lease '{name}' is in progress")
        if taking is None:
            self._check_limits(record, name, lease)
            taking = LeaseTaking(record, queue, name, range_request)
            self._taking[key] = taking
            self._leasing.append(taking)
            self._broker.wake(self)
            self._watch_master(taking)
        taking.waiting.append((answered, refused))

    def _check_limits(self, record: records.Queue, name: str, lease: records.Lease | None) -> None:
        state = self._broker.metadata.state
        alive = [other for other in state.leases_of(record.queue_id) if not other.ended]
        if (lease is None or lease.ended) and len(alive) >= range_limits.LEASES_PER_QUEUE_MAX:
            raise PreconditionFailed(f"a queue may have {range_limits.LEASES_PER_QUEUE_MAX} leases")
        if lease is not None and (
            len(lease.takes) >= range_limits.TAKES_PER_LEASE_MAX
            or spans_held(lease) + range_limits.SPANS_PER_TAKE > range_limits.LEASE_SPANS_MAX
        ):
            raise PreconditionFailed(f"lease '{name}' is at its limit: settle some of its messages first")

    def pump(self) -> bool:
        """Collect messages for takes in turn, until as many are collected as a turn permits."""
        room = range_limits.LEASED_AT_ONCE_MAX
        for _ in range(len(self._leasing)):
            if room <= 0:
                break
            taking = self._leasing.popleft()
            room += taking.count
            if taking.queue.deleted:
                self._redirect(taking)
            elif not taking.collect():
                self._leasing.append(taking)
            elif not taking.count:
                self._finish(taking)
                taking.answer(_taken(records.LeaseTake(taking.number, b"", 0, 0)))
            else:
                lease_operations.when_safe(taking.queue, partial(self._propose, taking))
            room -= taking.count
        return bool(self._leasing)

    def _propose(self, taking: LeaseTaking) -> None:
        """Propose the lease record after the queue reported the messages as safe."""
        if taking.queue.deleted:
            self._redirect(taking)
            return
        broker = self._broker
        queue = broker.metadata.state.queues.get(taking.record.key)
        epoch = 0 if queue is None else queue.ring.epoch
        command = taking.command(epoch, broker.settings.name, broker.incarnation)
        # A command that the store does not accept leaves no record, like one that the cluster refuses.
        proposed = partial(self._proposed, taking)
        self._writes.add(command, taking.range_request.user, proposed, lambda error: proposed())

    def _proposed(self, taking: LeaseTaking) -> None:
        """Reply after the record was applied; return the messages if it was refused."""
        self._finish(taking)
        lease = self._broker.metadata.state.leases.get(taking.key)
        takes = [] if lease is None else [take for take in lease.takes if take.number == taking.number]
        if lease is not None and takes:
            self._use(lease)
            taking.answer(_taken(takes[0]))
            return
        # The record was refused: the messages are ready again.
        if not taking.queue.deleted:
            lease_operations.return_leased(taking.queue, taking.spans)
        self._redirect(taking)

    def _finish(self, taking: LeaseTaking) -> None:
        if self._taking.get(taking.key) is taking:
            del self._taking[taking.key]
        if taking.key not in self._broker.metadata.state.leases:
            self._owners.forget(taking.key)

    def _redirect(self, taking: LeaseTaking) -> None:
        """Pass a take that cannot complete here on to the queue's successor, or refuse it."""
        self._finish(taking)
        queue = taking.queue
        if queue.deleted and queue.successor is not None:
            for answered, refused in taking.take_waiting():
                queue.successor.handle_range_request(taking.range_request, answered, refused, self)
        else:
            taking.refuse(
                NotFound(
                    f"queue '{queue.name}' in vhost '{queue.vhost}' has another master; repeat the request",
                    reason=error_reasons.TRY_AGAIN,
                )
            )

    def _watch_master(self, taking: LeaseTaking) -> None:
        """Check regularly whether the queue of a waiting take got another master, and redirect the take
        there."""

        def check() -> None:
            if self._taking.get(taking.key) is taking:
                if taking.queue.deleted:
                    self._redirect(taking)
                else:
                    self._watch_master(taking)

        clock = self._broker.clock
        clock.at(clock.now_ms + RECHECK_MS, check)

    # -- settle and release ---------------------------------------------------------------------

    def _settle(
        self, lease: records.Lease, values: RequestValues, user: str, answered: Answered, refused: Refused
    ) -> None:
        if not values.has("number") and not values.has("to"):
            raise PreconditionFailed("a settle needs the header 'number' or 'to'")
        number, to = values.number("number", NUMBER_MAX), values.number("to", NUMBER_MAX)
        takes = [take.spans for take in lease.takes if take.number <= number]
        # After a fork both sides may have used this take number, for different messages.
        if takes and values.has("digest") and digest(takes) != values.number("digest"):
            raise PreconditionFailed(
                f"lease '{lease.name}' has other messages up to take {number}, from another side of"
                " a partition; release it, and they return to the queue",
                reason=error_reasons.OTHER_MESSAGES,
            )
        count = sum([count_of(below(unpack(held), to)) for held in takes])
        done = reply(range_protocol.counted_answer(count))
        if not count:
            answered(done)
            return
        command = commands.SettleLease(lease.queue_id, lease.name, number, to)
        self._writes.add(command, user, lambda: answered(done), refused)

    def release(
        self, lease: records.Lease, queue: Queue, user: str, answered: Answered, refused: Refused,
        *, since: int = -1,
    ) -> None:  # fmt: skip
        """Release a lease, after recording that consumers may have seen its messages. With `since`,
        release it only if no later take exists."""
        held = held_by(lease)
        if held:
            lease_operations.leased_is_delivered(queue, sum(held[-1]) - 1)

        def end() -> None:
            done = reply(range_protocol.counted_answer(count_of(held)))
            command = commands.EndLease(lease.queue_id, lease.name, since)
            self._writes.add(command, user, lambda: answered(done), refused)

        lease_operations.when_safe(queue, end)

    # -- operator commands ----------------------------------------------------------------------

    def rows(self, vhost: str, *, masterless: bool = False) -> list[dict[str, Any]]:
        """Return the leases of this node's queues, or with `masterless` those of queues without a master."""
        state = self._broker.metadata.state
        leases = [lease for lease in state.leases.values() if lease.vhost == vhost and not lease.ended]
        if masterless:
            selected = [lease for lease in leases if state.queues[lease.vhost, lease.queue].waits_for]
        else:
            selected = [lease for lease in leases if self._queue(lease) is not None]
        return [lease_row(lease, self.last_used_ms(lease)) for lease in selected]

    def release_now(self, vhost: str, queue: str, name: str) -> int | None:
        """Release a lease at once. Return the number of its messages; None if the lease does not exist."""
        metadata = self._broker.metadata
        record = metadata.state.queues.get((vhost, queue))
        lease = None if record is None else metadata.state.leases.get((record.queue_id, name))
        if lease is None or lease.ended:
            return None
        held, live = held_by(lease), self._queue(lease)
        if held and live is not None:
            lease_operations.leased_is_delivered(live, sum(held[-1]) - 1)
        metadata.write(commands.EndLease(lease.queue_id, lease.name))
        return count_of(held)

    # -- metadata changes -----------------------------------------------------------------------

    def begin(self, record: records.Queue, queue: Queue) -> None:
        """Set leased messages aside after this node became master, before it serves clients."""
        for lease in self._broker.metadata.state.leases_of(record.queue_id):
            held, settled = held_by(lease), unpack(lease.settled)
            backing = queue.backing
            # The sequences of a lease are used, even if this copy has lost the messages.
            highest = max([sum(span) for span in (*held, *settled)], default=0)
            backing.next_sequence = max(backing.next_sequence, highest)
            backing.lease_exact(held)
            if settled:
                backing.lease_exact(settled)
                self._forget(queue, lease, settled)
            self._use(lease)

    def follow(self, change: Change) -> None:
        """Apply a change of a lease to its queue."""
        after = change.record
        assert isinstance(after, records.Lease)
        queue = self._queue(after)
        if isinstance(change, Deleted) or after.ended:
            self._used_ms.pop(after.key, None)
            self._owners.forget(after.key)
        elif not after.takes:
            self._watch_empty(after.key)
        if queue is None:
            return
        before = after if isinstance(change, Deleted) else change.before
        if isinstance(change, Deleted) or after.ended:
            if isinstance(before, records.Lease) and before.takes:
                lease_operations.return_leased(queue, held_by(before))
        elif isinstance(before, records.Lease) and after.settled != before.settled:
            settled = without(unpack(after.settled), unpack(before.settled))
            if settled:
                self._forget(queue, after, settled)

    def _queue(self, lease: records.Lease) -> Queue | None:
        """Return the lease's queue, if this node is its master."""
        key = self._broker.metadata.state.queue_keys.get(lease.queue_id)
        vhost = self._broker.vhosts.get(lease.vhost)
        return None if key is None or vhost is None else vhost.local_queue(lease.queue)

    def _forget(self, queue: Queue, lease: records.Lease, settled: list[Span]) -> None:
        """Remove settled messages from the queue, and afterwards from the record."""
        lease_operations.settle_leased(queue, settled)
        if queue.settings.durable:
            self._broker.journal.want_sync()
        command = commands.ForgetSettled(lease.queue_id, lease.name, pack(settled))

        def forget_settled() -> None:
            if not queue.deleted:
                self._writes.add(command, INTERNAL_USER, _ignore, _ignore)

        lease_operations.when_safe(queue, forget_settled)

    # -- idle leases ----------------------------------------------------------------------------

    def _use(self, lease: records.Lease) -> None:
        is_new = lease.key not in self._used_ms
        self._used_ms[lease.key] = self._broker.clock.now_ms
        if is_new:
            self._watch(lease.key, lease.idle_ms)
        if not lease.takes:
            self._watch_empty(lease.key)

    def _watch(self, key: records.LeaseKey, idle_ms: int) -> None:
        self._broker.clock.at(self._used_ms[key] + idle_ms, lambda: self._release_if_idle(key))

    def _release_if_idle(self, key: records.LeaseKey) -> None:
        """Release the lease if it was unused for too long."""
        lease = self._broker.metadata.state.leases.get(key)
        queue = None if lease is None else self._queue(lease)
        if lease is None or queue is None or key not in self._used_ms:
            self._used_ms.pop(key, None)
            return
        if self._broker.clock.now_ms - self._used_ms[key] >= lease.idle_ms and key not in self._taking:
            self._used_ms[key] = self._broker.clock.now_ms
            # `since`: a take that is agreed on before the release keeps the lease alive.
            self.release(lease, queue, lease.user, _ignore, _ignore, since=lease.number)
        if key in self._used_ms:
            self._watch(key, max(lease.idle_ms, RECHECK_MS))

    def _watch_empty(self, key: records.LeaseKey) -> None:
        """End an empty lease when its owner is silent: a query that finished or died leaves none behind."""
        if key in self._used_ms and key not in self._empty and self._owners.has_owner(key):
            self._empty.add(key)
            self._end_if_empty(key)

    def _end_if_empty(self, key: records.LeaseKey) -> None:
        lease = self._broker.metadata.state.leases.get(key)
        queue = None if lease is None else self._queue(lease)
        used_ms = self._used_ms.get(key)
        if lease is None or lease.ended or lease.takes or queue is None or used_ms is None:
            self._empty.discard(key)
            return
        clock = self._broker.clock
        if clock.now_ms - used_ms >= range_limits.LEASE_OWNER_MS and key not in self._taking:
            self._empty.discard(key)
            self.release(lease, queue, lease.user, _ignore, _ignore, since=lease.number)
            return
        due_ms = max(used_ms + range_limits.LEASE_OWNER_MS, clock.now_ms + RECHECK_MS)
        clock.at(due_ms, lambda: self._end_if_empty(key))


def _ignore(*ignored: object) -> None:
    pass


def _repeated_take(lease: records.Lease, number: int) -> RangeReply:
    """Return the reply to a repeated take."""
    for take in lease.takes:
        if take.number == number:
            return _taken(take)
    raise PreconditionFailed(
        f"take {number} of lease '{lease.name}' is settled; the last take was {lease.number}",
        reason=error_reasons.TAKE_SETTLED,
    )


def _taken(take: records.LeaseTake) -> RangeReply:
    spans = unpack(take.spans)
    first, end = (spans[0][0], sum(spans[-1])) if spans else (0, 0)
    taken = range_protocol.TakenSpans(take.number, first, end, count_of(spans), take.size_bytes)
    return reply(range_protocol.taken_answer(taken), take.spans)
