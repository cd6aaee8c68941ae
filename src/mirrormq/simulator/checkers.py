"""Checkers of guarantees, each independent of the others and of the broker's implementation.

Some check each event as it happens, others the end state: all faults are healed, publishers rest, and
consumers have drained the queues. A checker returns one sentence per error; no sentence means success.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from mirrormq.simulator.run_history import Released, RunHistory, SentRecord, SingleCopies

SHOWN = 3
"""Examples in a sentence."""


class SimulatedCopy(NamedTuple):
    """Copy of a queue on one node, when the cluster is at rest."""

    node: str
    queue: str
    master: bool
    bodies: tuple[str, ...]
    received: int = 0
    """Last operation that the member has received in a ring."""
    ingested_ms: tuple[int, ...] = ()
    """Ingestion time of each message."""


class EndState(Protocol):
    """State of the simulated world at rest."""

    history: RunHistory

    def copies(self) -> list[SimulatedCopy]:
        """Return every node's copy of every queue."""

    def filled(self) -> list[SimulatedCopy]:
        """Return the copies after healing, before consumers drained the queues."""

    def metadata(self) -> dict[str, bytes]:
        """Return every node's metadata, as bytes that are equal if the metadata is."""

    def stranded(self) -> list[str]:
        """Return the queues with messages that are neither ready nor with a client."""

    def unsettled(self) -> list[str]:
        """Return the deviations from the healthy state: nodes that do not serve, rings that lack members."""


class Checker(Protocol):
    """Checker of the end state."""

    def finish(self, end: EndState) -> Iterator[str]: ...


def some(found: Iterable[str]) -> str:
    """Return the count and a few examples."""
    listed = sorted(found)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{len(listed)} ({'; '.join(listed[:SHOWN])}{more})"


class ConfirmedIsKept(SingleCopies):
    """Confirmed-is-kept (G1): every confirmed message was delivered and acknowledged in the end. Only
    persistent messages are checked: transient ones may be lost when all nodes that have them die. Messages
    are excused that were confirmed while one node was left, whose disk failed then."""

    def finish(self, end: EndState) -> Iterator[str]:
        history = end.history
        held = {body for copy in end.copies() if copy.master for body in copy.bodies}
        lost = self.covered(history.confirmed.keys() - history.acknowledged.keys() - held, history)
        if lost:
            yield f"confirmed and lost: {some(lost)}"

    def covered(self, bodies: Iterable[str], history: RunHistory) -> set[str]:
        """Return those of the messages that must not be lost."""
        return {
            body
            for body in bodies
            if body in history.confirmed and history.sent[body].persistent
            if history.sent[body].queue not in history.lossy and not self.may_be_lost(body, history)
        }


class NothingIsInvented:
    """No invention: every delivered message was published, and to that queue."""

    def finish(self, end: EndState) -> Iterator[str]:
        strange = {seen.body for seen in end.history.delivered} - end.history.sent.keys()
        if strange:
            yield f"delivered and never sent: {some(strange)}"


class RedeliveryIsMarked:
    """Redelivery-marked (G5): at most one delivery of a message is not marked as redelivered. A master
    reports a delivery to its mirrors at the moment of the delivery. If it dies or is cut off before the
    report arrives, its successor cannot know; nor can a node that lost power before its disk had it. Only
    such deliveries are excused."""

    def __init__(self) -> None:
        self._excuses: list[tuple[int, int]] = []

    def excuse(self, from_ms: int, to_ms: int) -> None:
        """Excuse deliveries in this time: their reports may not have arrived."""
        self._excuses.append((from_ms, to_ms))

    def finish(self, end: EndState) -> Iterator[str]:
        seen: set[str] = set()
        unmarked: set[str] = set()
        for delivery in end.history.delivered:
            if delivery.redelivered or delivery.detoured:
                continue
            if delivery.body in seen:
                unmarked.add(delivery.body)
            if not any(start <= delivery.at_ms <= stop for start, stop in self._excuses):
                seen.add(delivery.body)
        if unmarked:
            yield f"delivered again without saying so: {some(unmarked)}"


def overtaken(found: Iterable[tuple[object, SentRecord, str]]) -> set[str]:
    """Return the messages that come after later ones of the same kind; `found` has each one's kind first."""
    last: dict[object, int] = {}
    wrong: set[str] = set()
    for kind, sent, body in found:
        if sent.number < last.get(kind, 0):
            wrong.add(body)
        last[kind] = max(sent.number, last.get(kind, 0))
    return wrong


class OrderIsKept:
    """Order: each subscription sees the messages of one channel, queue and priority in order, if they are not
    redelivered. Messages whose record was damaged arrive when a mirror has sent them again."""

    def __init__(self, damaged: Collection[str] = ()) -> None:
        self._damaged = damaged

    def finish(self, end: EndState) -> Iterator[str]:
        wrong = overtaken(
            ((seen.consumer, seen.subscription, sent.channel, sent.queue, sent.priority), sent, seen.body)
            for seen in end.history.delivered
            if (sent := end.history.sent.get(seen.body)) and not seen.redelivered and not seen.detoured
            if seen.body not in self._damaged
        )
        if wrong:
            yield f"delivered out of order: {some(wrong)}"


class OneIsActive:
    """Single active consumer: messages that no consumer of the queue has seen before arrive in the order in
    which a channel published them, over all of its consumers."""

    def __init__(self, single: Callable[[str], bool], damaged: Collection[str] = ()) -> None:
        self._single = single
        self._damaged = damaged

    def finish(self, end: EndState) -> Iterator[str]:
        first = {seen.body: seen for seen in reversed(end.history.delivered)}
        wrong = overtaken(
            ((sent.channel, sent.queue), sent, seen.body)
            for seen in end.history.delivered
            if first[seen.body] is seen and not seen.redelivered and not seen.detoured
            if seen.body not in self._damaged
            if (sent := end.history.sent.get(seen.body)) and self._single(sent.queue)
        )
        if wrong:
            yield f"delivered beside the active consumer: {some(wrong)}"


class TakesAreRepeatable:
    """Repeatable takes: a lease gets the same messages for each repetition of a take, except transient ones
    that a restart has ended. After a fork, each side has its own history of a lease."""

    def __init__(self, *, parting: bool) -> None:
        self._parting = parting

    def finish(self, end: EndState) -> Iterator[str]:
        first: dict[tuple[str, int], list[str]] = {}
        for leased in end.history.leased if not self._parting else ():
            lasting = [body for body in leased.bodies if end.history.sent[body].persistent]
            if first.setdefault((leased.lease, leased.number), lasting) != lasting:
                take = f"take {leased.number} of lease {leased.lease}"
                yield f"{take} got others at {leased.at_ms} ms than before"


class MirrorsAreEqual:
    """All-or-none (G3): at rest, a queue's copies hold the same messages in the same order, with the same
    ingestion times, and have received the same operations."""

    def finish(self, end: EndState) -> Iterator[str]:
        yield from self._compare(end.filled())
        yield from self._compare(end.copies())

    @staticmethod
    def _compare(copies: list[SimulatedCopy]) -> Iterator[str]:
        masters = {copy.queue: copy for copy in copies if copy.master}
        for copy in copies:
            master = masters.get(copy.queue)
            if master is None:
                yield f"{copy.node} has a copy of queue {copy.queue} without a master"
            elif copy.received != master.received:
                yield (
                    f"{copy.node} received {copy.received} operations on queue {copy.queue}, "
                    f"its master {master.node} {master.received}"
                )
            elif copy.bodies != master.bodies:
                difference = set(copy.bodies) ^ set(master.bodies)
                what = some(difference) if difference else "the order"
                yield f"{copy.node} and {master.node} differ in queue {copy.queue}: {what}"
            elif copy.ingested_ms != master.ingested_ms:
                rows = zip(copy.bodies, copy.ingested_ms, master.ingested_ms, strict=True)
                what = some(f"{body} ({mine} and {other} ms)" for body, mine, other in rows if mine != other)
                yield f"{copy.node} and {master.node} differ in ingestion times of {copy.queue}: {what}"


class OneMaster:
    """One-master-per-epoch (G2): an epoch of a queue has one master. In modes that allow forks, each side has
    its own history."""

    def __init__(self) -> None:
        self._masters: dict[tuple[object, ...], str] = {}
        self._wrong: list[str] = []

    def acts(self, queue: str, epoch: int, story: object, node: str) -> None:
        """Record that a node acts as master."""
        known = self._masters.setdefault((queue, epoch, story), node)
        if known != node:
            self._wrong.append(f"{known} and {node} are both master of {queue} in epoch {epoch}")

    def finish(self, end: EndState) -> Iterator[str]:
        yield from dict.fromkeys(self._wrong)


class MinorityIsSilent:
    """Minority: in a majority mode the smaller side confirms nothing, once it has had time to detect the
    partition."""

    NOTICE_MS = 6000
    """Time to detect a partition: the failure detector's timeout, its check interval, and some turns."""

    def __init__(self) -> None:
        self._outnumbered: dict[str, int] = {}
        self._wrong: set[str] = set()
        self._seen = 0

    def observe(self, now_ms: int, outnumbered: Iterable[str], history: RunHistory) -> None:
        """Record the nodes that cannot reach a majority now, and check whether any of them has confirmed a
        publish."""
        names = set(outnumbered)
        self._outnumbered = {name: self._outnumbered.get(name, now_ms) for name in names}
        for each in islice(history.confirmed.values(), self._seen, None):
            since = self._outnumbered.get(each.node)
            if since is not None and each.at_ms - since > self.NOTICE_MS:
                self._wrong.add(f"{each.body} by {each.node}, cut off for {each.at_ms - since} ms")
        self._seen = len(history.confirmed)

    def finish(self, end: EndState) -> Iterator[str]:
        if self._wrong:
            yield f"confirmed by a minority: {some(self._wrong)}"


class RingsAgree:
    """All-or-none (G3): an operation of a ring is the same on every member. A member numbers received
    operations without gaps, so members with the same number of equal operations have received everything."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, object, int], tuple[str, bytes]] = {}
        self._wrong: list[str] = []

    def observe(self, node: str, queue: str, epoch: object, number: int, operation: bytes) -> bool:
        """Record that a member has an operation; return True if it is the first member that has it."""
        key = queue, epoch, number
        if key not in self._operations:
            self._operations[key] = node, operation
            return True
        other, known = self._operations[key]
        if known != operation:
            self._wrong.append(f"{other} and {node} received different operations {number} on queue {queue}")
        return False

    def finish(self, end: EndState) -> Iterator[str]:
        yield from list(dict.fromkeys(self._wrong))[:SHOWN]


class AcksAreNotInvented(SingleCopies):
    """Removals: a message leaves a queue only because a consumer acknowledged it. Expired and rejected
    messages go to another queue, and no client purges. A sequence may stand for another message on another
    side: any of them counts. A lease settles sequences, also of messages that are lost: transient ones after
    a restart, and those that were on one disk only, which failed."""

    def __init__(self) -> None:
        super().__init__()
        self._bodies: dict[tuple[int, int], set[str]] = {}
        self._gone: set[tuple[int, int]] = set()

    def came(self, queue_id: int, sequence: int, body: str) -> None:
        """Record the sequence of a message."""
        self._bodies.setdefault((queue_id, sequence), set()).add(body)

    def bodies(self, queue_id: int, sequence: int) -> set[str]:
        """Return the messages that have had a sequence."""
        return self._bodies.get((queue_id, sequence), set())

    def went(self, queue_id: int, sequence: int) -> None:
        """Record that a message has left the queue."""
        self._gone.add((queue_id, sequence))

    def finish(self, end: EndState) -> Iterator[str]:
        found = (self._bodies.get(key) for key in self._gone)
        history = end.history
        wrong = {min(bodies) for bodies in found if bodies and not bodies & history.acknowledged.keys()}
        wrong = {body for body in wrong if history.sent[body].queue not in history.lossy}
        wrong = {
            body
            for body in wrong
            if not (history.leased or body in history.moved_ms)
            or (history.sent[body].persistent and not self.may_be_lost(body, history))
        }
        if wrong:
            yield f"gone and never acknowledged: {some(wrong)}"


class MetadataIsEqual:
    """Metadata: every node has the same metadata in the end."""

    def finish(self, end: EndState) -> Iterator[str]:
        found = end.metadata()
        if len(set(found.values())) > 1:
            yield f"nodes differ in their metadata: {', '.join(sorted(found))}"


class LogsAgree:
    """Logs: nodes of one history apply the same entry at each log index."""

    def __init__(self) -> None:
        self._applied: dict[tuple[object, int], tuple[str, bytes]] = {}
        self._wrong: list[str] = []

    def applied(self, node: str, story: object, index: int, entry: bytes) -> None:
        """Record that a node has applied an entry."""
        other, known = self._applied.setdefault((story, index), (node, entry))
        if known != entry:
            self._wrong.append(f"{other} and {node} applied different entries at {index}")

    def finish(self, end: EndState) -> Iterator[str]:
        yield from dict.fromkeys(self._wrong)


class HeldIsNotRedelivered:
    """Redelivery-marked (G5) with `ha-redeliver: lost`: a message is delivered again only when each client
    that had it has requeued it or lost its connection. Dead letters and orphans are other messages with the
    same body."""

    def __init__(self, kept: Callable[[str], bool]) -> None:
        self._kept = kept
        """Return whether holders keep the messages of a queue."""
        self._excused = False

    def excuse(self) -> None:
        """Excuse the run: two sides continued separately, or the policy was another one for a while."""
        self._excused = True

    def finish(self, end: EndState) -> Iterator[str]:
        holders: dict[str, set[tuple[str, int]]] = {}
        wrong: set[str] = set()
        for event in end.history.held if not self._excused else ():
            holder = (event.consumer, event.subscription)
            if isinstance(event, Released):
                for body, having in holders.items():
                    if event.body in ("", body):
                        having.discard(holder)
                continue
            sent = end.history.sent.get(event.body)
            if sent is not None and not event.detoured and self._kept(sent.queue):
                having = holders.setdefault(event.body, set())
                if having:
                    first = min(having)
                    wrong.add(f"{event.body} to {event.consumer} at {event.at_ms}, {first[0]} had it")
                having.add(holder)
        if wrong:
            yield f"delivered again while a client held it: {some(wrong)}"


class NothingIsStranded:
    """Every message of a queue is ready or with a client: none is held for a client that is gone."""

    def finish(self, end: EndState) -> Iterator[str]:
        yield from end.stranded()


class EverythingSettles:
    """Liveness: when the faults are over, all nodes serve, all rings are whole, all queues are drained."""

    def finish(self, end: EndState) -> Iterator[str]:
        yield from end.unsettled()
