"""Leases of queues whose master this node is: taken, settled, given up, and kept across masters.

A lease is a record of the metadata (`metadata.lease_commands`), so every node knows it. What the master adds
is the messages themselves. A take goes like this:

    1.  messages leave what is ready, some thousand in each turn of the loop
    2.  the queue says that they are safe: on every disk that counts
    3.  the record is proposed; when it is applied they belong to the lease, and the client is answered

If the master dies before 3, nothing has happened: to the next master they are ready. If it dies after, the
next master reads the record before it serves anybody, and sets the same messages aside (`begin`). A client
that did not get its answer asks again with the same number and finds the take in the record.

Settling is the same the other way round: first the record says so, then the queue forgets the messages, and
when every disk has heard of that the record forgets them too.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from mirrormq.broker.leases.lease_owners import LeaseOwners, holds_nothing
from mirrormq.broker.leases.lease_rows import lease_entry, lease_row
from mirrormq.broker.leases.lease_take import LeaseTaking
from mirrormq.errors import NotFound, PreconditionFailed
from mirrormq.metadata import commands, records
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.lease_commands import held_by, spans_held
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
from mirrormq.ranges.spans import Span, below, count_of, digest, pack, unpack, without

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.channels.channel import Channel

LOOK_AGAIN_MS = 1_000
"""How often a take that is under way is looked after: its queue may have gone to another master."""


class LeaseManager:
    """Of one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._taking: dict[records.LeaseKey, LeaseTaking] = {}
        self._leasing: deque[LeaseTaking] = deque()
        """Those that still collect messages."""
        self._used_ms: dict[records.LeaseKey, int] = {}
        """When each lease was last used; those of this node's queues."""
        self._owners = LeaseOwners(broker.clock)
        self.awake = False
        self.deleted = False

    # -- questions ------------------------------------------------------------------------------

    def asked(
        self,
        record: records.Queue,
        queue: Queue,
        range_request: RangeRequest,
        answered: Answered,
        refused: Refused,
    ) -> None:
        """A question about leases of a queue of this node."""
        values = range_request.values()
        ask = values.text("ask")
        if ask == range_protocol.LEASES:
            found = self._broker.metadata.state.leases_of(record.queue_id)
            answered(self._list([lease for lease in found if not lease.ended]))
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
            self._settle(lease, values, range_request.user, answered)
        elif ask == range_protocol.RELEASE and values.has("empty") and lease.takes:
            answered(reply(range_protocol.counted_answer(0)))
        elif ask == range_protocol.RELEASE:
            self.release(lease, queue, range_request.user, answered)
        else:
            answered(reply({}))

    def _find(self, record: records.Queue, name: str) -> records.Lease:
        lease = self._broker.metadata.state.leases.get((record.queue_id, name))
        if lease is None or lease.ended:
            where = f"queue '{record.name}' in vhost '{record.vhost}'"
            raise NotFound(f"no lease '{name}' of {where}", reason=error_reasons.NO_LEASE)
        return lease

    def listed(self, channel: Channel) -> RangeReply:
        """All leases of the client's vhost whose queues it may read."""
        vhost, may = channel.vhost.name, channel.broker.permissions.check
        leases = [lease for lease in self._broker.metadata.state.leases.values() if not lease.ended]
        return self._list(
            [one for one in leases if one.vhost == vhost and may(channel.user.name, vhost, one.queue, "read")]
        )

    def _list(self, leases: list[records.Lease]) -> RangeReply:
        entries = [lease_entry(lease, self.last_used_ms(lease)) for lease in leases]
        return reply({}, range_protocol.leases_answer(entries))

    def last_used_ms(self, lease: records.Lease) -> int | None:
        """When it was last used; None if another node knows."""
        return self._used_ms.get(lease.key)

    # -- taking ---------------------------------------------------------------------------------

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
            if number <= lease.number:
                answered(_again(lease, number))
                return
        taking = self._taking.get(key)
        if taking is not None and taking.queue is not queue:
            self._ask_again(taking)
            taking = self._taking.get(key)
        if taking is not None and taking.number != number:
            raise PreconditionFailed(f"take {taking.number} of lease '{name}' is under way")
        if taking is None:
            self._check_limits(record, name, lease)
            taking = LeaseTaking(record, queue, name, range_request)
            self._taking[key] = taking
            self._leasing.append(taking)
            self._broker.wake(self)
            self._look_after(taking)
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
            raise PreconditionFailed(f"lease '{name}' holds as much as it may: settle some of it first")

    def pump(self) -> bool:
        """Collect messages for the take whose turn it is."""
        if self._leasing:
            taking = self._leasing.popleft()
            if taking.queue.deleted:
                self._ask_again(taking)
            elif not taking.collect():
                self._leasing.append(taking)
            elif not taking.count:
                self._over(taking)
                taking.answer(_taken(records.LeaseTake(taking.number, b"", 0, 0)))
            else:
                taking.queue.when_safe(lambda: self._propose(taking))
        return bool(self._leasing)

    def _propose(self, taking: LeaseTaking) -> None:
        """The messages are safe."""
        if taking.queue.deleted:
            self._ask_again(taking)
            return
        broker = self._broker
        queue = broker.metadata.state.queues.get(taking.record.key)
        epoch = 0 if queue is None else queue.ring.epoch
        command = taking.command(epoch, broker.settings.name, broker.incarnation)
        broker.write(command, taking.range_request.user, lambda: self._proposed(taking))

    def _proposed(self, taking: LeaseTaking) -> None:
        """The record is applied, or refused."""
        self._over(taking)
        lease = self._broker.metadata.state.leases.get(taking.key)
        found = [] if lease is None else [take for take in lease.takes if take.number == taking.number]
        if lease is not None and found:
            self._use(lease)
            taking.answer(_taken(found[0]))
            return
        if not taking.queue.deleted:
            taking.queue.return_leased(taking.spans)
        self._ask_again(taking)

    def _over(self, taking: LeaseTaking) -> None:
        if self._taking.get(taking.key) is taking:
            del self._taking[taking.key]
        if taking.key not in self._broker.metadata.state.leases:
            self._owners.forget(taking.key)

    def _ask_again(self, taking: LeaseTaking) -> None:
        """It came to nothing here: whoever stands for the queue now may know."""
        self._over(taking)
        queue = taking.queue
        if queue.deleted and queue.successor is not None:
            for answered, refused in taking.take_waiting():
                queue.successor.handle_range_request(taking.range_request, answered, refused, self)
        else:
            taking.refuse(
                NotFound(
                    f"queue '{queue.name}' in vhost '{queue.vhost}' has another master; ask again",
                    reason=error_reasons.TRY_AGAIN,
                )
            )

    def _look_after(self, taking: LeaseTaking) -> None:
        """A take whose queue has gone to another master while it waited is asked for there."""

        def look() -> None:
            if self._taking.get(taking.key) is taking:
                if taking.queue.deleted:
                    self._ask_again(taking)
                else:
                    self._look_after(taking)

        clock = self._broker.clock
        clock.at(clock.now_ms + LOOK_AGAIN_MS, look)

    # -- settling and giving up -----------------------------------------------------------------

    def _settle(self, lease: records.Lease, values: RequestValues, user: str, answered: Answered) -> None:
        if not values.has("number") and not values.has("to"):
            raise PreconditionFailed("a settle needs the header 'number' or 'to'")
        number, to = values.number("number", NUMBER_MAX), values.number("to", NUMBER_MAX)
        takes = [take.spans for take in lease.takes if take.number <= number]
        if takes and values.has("digest") and digest(takes) != values.number("digest"):
            raise PreconditionFailed(
                f"lease '{lease.name}' has other messages up to take {number}: another side of a partition's;"
                " release it, and they return to the queue",
                reason=error_reasons.OTHER_MESSAGES,
            )
        count = sum([count_of(below(unpack(held), to)) for held in takes])
        done = reply(range_protocol.counted_answer(count))
        if not count:
            answered(done)
            return
        command = commands.SettleLease(lease.queue_id, lease.name, number, to)
        self._broker.write(command, user, lambda: answered(done))

    def release(
        self, lease: records.Lease, queue: Queue, user: str, answered: Answered, *, since: int = -1
    ) -> None:
        """Give a lease up. First it is made known that consumers may have seen its messages. With `since`
        only if it has not taken any after that take."""
        held = held_by(lease)
        if held:
            queue.leased_is_delivered(sum(held[-1]) - 1)

        def end() -> None:
            done = reply(range_protocol.counted_answer(count_of(held)))
            command = commands.EndLease(lease.queue_id, lease.name, since)
            self._broker.write(command, user, lambda: answered(done))

        queue.when_safe(end)

    # -- operators ------------------------------------------------------------------------------

    def rows(self, vhost: str, *, masterless: bool = False) -> list[dict[str, Any]]:
        """The leases of this node's queues, or of those that nobody is master of."""
        state = self._broker.metadata.state
        found = [lease for lease in state.leases.values() if lease.vhost == vhost and not lease.ended]
        if masterless:
            chosen = [lease for lease in found if state.queues[lease.vhost, lease.queue].waits_for]
        else:
            chosen = [lease for lease in found if self._queue(lease) is not None]
        return [lease_row(lease, self.last_used_ms(lease)) for lease in chosen]

    def release_now(self, vhost: str, queue: str, name: str) -> int | None:
        """Give a lease up at once; says how many messages it had, None if there is no such lease."""
        metadata = self._broker.metadata
        record = metadata.state.queues.get((vhost, queue))
        lease = None if record is None else metadata.state.leases.get((record.queue_id, name))
        if lease is None or lease.ended:
            return None
        held, live = held_by(lease), self._queue(lease)
        if held and live is not None:
            live.leased_is_delivered(sum(held[-1]) - 1)
        metadata.write(commands.EndLease(lease.queue_id, lease.name))
        return count_of(held)

    # -- following the metadata -----------------------------------------------------------------

    def begin(self, record: records.Queue, queue: Queue) -> None:
        """This node has become master: set aside what is leased before anybody is served."""
        for lease in self._broker.metadata.state.leases_of(record.queue_id):
            held, settled = held_by(lease), unpack(lease.settled)
            backing = queue.backing
            highest = max([sum(one) for one in (*held, *settled)], default=0)
            backing.next_sequence = max(backing.next_sequence, highest)
            backing.lease_exact(held)
            if settled:
                backing.lease_exact(settled)
                self._forget(queue, lease, settled)
            self._use(lease)

    def follow(self, change: Change) -> None:
        """A lease has changed."""
        after = change.record
        assert isinstance(after, records.Lease)
        queue = self._queue(after)
        if isinstance(change, Deleted) or after.ended:
            self._used_ms.pop(after.key, None)
            self._owners.forget(after.key)
        if queue is None:
            return
        before = after if isinstance(change, Deleted) else change.before
        if isinstance(change, Deleted) or after.ended:
            if isinstance(before, records.Lease) and before.takes:
                queue.return_leased(held_by(before))
        elif isinstance(before, records.Lease) and after.settled != before.settled:
            settled = without(unpack(after.settled), unpack(before.settled))
            if settled:
                self._forget(queue, after, settled)

    def _queue(self, lease: records.Lease) -> Queue | None:
        """The lease's queue, if this node is its master."""
        key = self._broker.metadata.state.queue_keys.get(lease.queue_id)
        vhost = self._broker.vhosts.get(lease.vhost)
        return None if key is None or vhost is None else vhost.local_queue(lease.queue)

    def _forget(self, queue: Queue, lease: records.Lease, settled: list[Span]) -> None:
        """Rid the queue of what is settled, and then the record."""
        queue.settle_leased(settled)
        if queue.settings.durable:
            self._broker.journal.want_sync()
        command = commands.ForgetSettled(lease.queue_id, lease.name, pack(settled))

        def gone() -> None:
            if not queue.deleted:
                self._broker.metadata.write(command)

        queue.when_safe(gone)

    # -- idleness -------------------------------------------------------------------------------

    def _use(self, lease: records.Lease) -> None:
        is_new = lease.key not in self._used_ms
        self._used_ms[lease.key] = self._broker.clock.now_ms
        if is_new:
            self._watch(lease.key, lease.idle_ms)

    def _watch(self, key: records.LeaseKey, idle_ms: int) -> None:
        self._broker.clock.at(self._used_ms[key] + idle_ms, lambda: self._look(key))

    def _look(self, key: records.LeaseKey) -> None:
        """Has the lease lain unused for too long?"""
        lease = self._broker.metadata.state.leases.get(key)
        queue = None if lease is None else self._queue(lease)
        if lease is None or queue is None or key not in self._used_ms:
            self._used_ms.pop(key, None)
            return
        if self._broker.clock.now_ms - self._used_ms[key] >= lease.idle_ms and key not in self._taking:
            self._used_ms[key] = self._broker.clock.now_ms
            self.release(lease, queue, lease.user, lambda given: None, since=lease.number)
        if key in self._used_ms:
            self._watch(key, max(lease.idle_ms, LOOK_AGAIN_MS))


def _again(lease: records.Lease, number: int) -> RangeReply:
    """The answer to a take that there was before."""
    for take in lease.takes:
        if take.number == number:
            return _taken(take)
    raise PreconditionFailed(
        f"take {number} of lease '{lease.name}' is over; the last was {lease.number}",
        reason=error_reasons.TAKE_SETTLED,
    )


def _taken(take: records.LeaseTake) -> RangeReply:
    spans = unpack(take.spans)
    first, end = (spans[0][0], sum(spans[-1])) if spans else (0, 0)
    taken = range_protocol.TakenSpans(take.number, first, end, count_of(spans), take.size_bytes)
    return reply(range_protocol.taken_answer(taken), take.spans)
