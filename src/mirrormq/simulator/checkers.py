"""What must hold, each checker by itself. None of them looks at how the broker works.

Some judge each thing as it happens, some the end: everything is healed, publishers rest, and consumers have
drained the queues. A checker says what is wrong in a sentence; no sentence, all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from mirrormq.simulator.run_history import Released, RunHistory, SentRecord

SHOWN = 3
"""Examples in a sentence."""


class SimulatedCopy(NamedTuple):
    """What a node holds of a queue when all is quiet."""

    node: str
    queue: str
    master: bool
    bodies: tuple[str, ...]
    received: int = 0
    """The last operation that it was told of, in a ring."""


class EndState(Protocol):
    """The world when all is quiet."""

    history: RunHistory

    def copies(self) -> list[SimulatedCopy]:
        """What every node holds of every queue."""

    def filled(self) -> list[SimulatedCopy]:
        """The same, when all was healed and before consumers drained the queues."""

    def metadata(self) -> dict[str, bytes]:
        """Every node's metadata, as bytes that are equal if it is."""

    def stranded(self) -> list[str]:
        """Queues with messages that are neither ready nor with a client."""

    def unsettled(self) -> list[str]:
        """What is not as it should be: nodes that do not serve, rings that lack somebody."""


class Checker(Protocol):
    """Finds what is wrong at the end."""

    def finish(self, end: EndState) -> Iterator[str]: ...


def some(found: Iterable[str]) -> str:
    """How many, and a few of them."""
    listed = sorted(found)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{len(listed)} ({'; '.join(listed[:SHOWN])}{more})"


class ConfirmedIsKept:
    """G1: what was confirmed was delivered and acknowledged in the end. Transient messages may go when all
    who have them die, so only persistent ones are looked at. Those that were confirmed while one node was
    left, whose disk failed then, are excused."""

    def __init__(self) -> None:
        self._excuses: list[tuple[int, int]] = []

    def excuse(self, from_ms: int, to_ms: int) -> None:
        """Messages confirmed in between may have been on one disk only, which failed."""
        self._excuses.append((from_ms, to_ms))

    def finish(self, end: EndState) -> Iterator[str]:
        history = end.history
        held = {body for copy in end.copies() if copy.master for body in copy.bodies}
        lost = self.covered(history.confirmed.keys() - history.acknowledged.keys() - held, history)
        if lost:
            yield f"confirmed and lost: {some(lost)}"

    def covered(self, bodies: Iterable[str], history: RunHistory) -> set[str]:
        """Messages that must not be lost, of these."""
        return {
            body
            for body in bodies
            if body in history.confirmed and history.sent[body].persistent
            if not self._is_excused(history.confirmed[body].at_ms)
        }

    def _is_excused(self, at_ms: int) -> bool:
        return any(start <= at_ms <= stop for start, stop in self._excuses)


class NothingIsInvented:
    """What comes out was put in, and where it belongs."""

    def finish(self, end: EndState) -> Iterator[str]:
        strange = {seen.body for seen in end.history.delivered} - end.history.sent.keys()
        if strange:
            yield f"delivered and never sent: {some(strange)}"


class RedeliveryIsMarked:
    """G5: of all deliveries of a message at most one does not say that there may have been others. A master
    tells its mirrors of a delivery in the same moment as the consumer; if its words do not arrive, because
    it dies or is cut off, its successor cannot know; nor can a node that lost its power before
    its disk had it. Only such deliveries are excused."""

    def __init__(self) -> None:
        self._excuses: list[tuple[int, int]] = []

    def excuse(self, from_ms: int, to_ms: int) -> None:
        """What was delivered in between may not have been heard of."""
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
    """The messages that come after later ones of the same kind; `found` has each one's kind first."""
    last: dict[object, int] = {}
    wrong: set[str] = set()
    for kind, sent, body in found:
        if sent.number < last.get(kind, 0):
            wrong.add(body)
        last[kind] = max(sent.number, last.get(kind, 0))
    return wrong


class OrderIsKept:
    """Of what one channel published to one queue, each subscription sees in order what is of one priority and
    not redelivered. Messages whose record was damaged come when a mirror has sent them again."""

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
    """A queue with a single active consumer keeps its order for all of its consumers together: what none of
    them has seen before comes in the order in which a channel published it."""

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
    """A lease gets the same messages each time it asks for a take, but for transient ones that a restart has
    ended. Where sides part, each tells its own story of a lease."""

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
    """G3: at rest, a queue's copies hold the same messages in the same order, and have heard the same."""

    def finish(self, end: EndState) -> Iterator[str]:
        yield from self._compare(end.filled())
        yield from self._compare(end.copies())

    @staticmethod
    def _compare(copies: list[SimulatedCopy]) -> Iterator[str]:
        masters = {copy.queue: copy for copy in copies if copy.master}
        for copy in copies:
            master = masters.get(copy.queue)
            if master is None:
                yield f"{copy.node} has a copy of queue {copy.queue}, and nobody is its master"
            elif copy.received != master.received:
                yield (
                    f"{copy.node} was told {copy.received} operations on queue {copy.queue}, "
                    f"its master {master.node} {master.received}"
                )
            elif copy.bodies != master.bodies:
                difference = set(copy.bodies) ^ set(master.bodies)
                what = some(difference) if difference else "the order"
                yield f"{copy.node} and {master.node} differ in queue {copy.queue}: {what}"


class OneMaster:
    """G2: an epoch of a queue has one master. In modes where sides part, each side has its own story."""

    def __init__(self) -> None:
        self._masters: dict[tuple[object, ...], str] = {}
        self._wrong: list[str] = []

    def acts(self, queue: str, epoch: int, story: object, node: str) -> None:
        """A node acts as master."""
        known = self._masters.setdefault((queue, epoch, story), node)
        if known != node:
            self._wrong.append(f"{known} and {node} are both master of {queue} in epoch {epoch}")

    def finish(self, end: EndState) -> Iterator[str]:
        yield from dict.fromkeys(self._wrong)


class MinorityIsSilent:
    """In a majority mode nothing is confirmed on the smaller side, once it has had time to notice."""

    NOTICE_MS = 6000
    """The failure detector's patience, its looks, and some turns."""

    def __init__(self) -> None:
        self._outnumbered: dict[str, int] = {}
        self._wrong: set[str] = set()
        self._seen = 0

    def look(self, now_ms: int, outnumbered: Iterable[str], history: RunHistory) -> None:
        """Who cannot reach a majority now; and has any of them confirmed something?"""
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
    """G3: an operation of a ring is the same wherever it arrives. A member counts what it is told without
    gaps, so who has the same number of them, and the same ones, was told everything."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, object, int], tuple[str, bytes]] = {}
        self._wrong: list[str] = []

    def told(self, node: str, queue: str, epoch: object, number: int, operation: bytes) -> bool:
        """A member has an operation; True if it is the first one to have it."""
        key = queue, epoch, number
        if key not in self._told:
            self._told[key] = node, operation
            return True
        other, known = self._told[key]
        if known != operation:
            self._wrong.append(f"{other} and {node} were told different operations {number} on queue {queue}")
        return False

    def finish(self, end: EndState) -> Iterator[str]:
        yield from list(dict.fromkeys(self._wrong))[:SHOWN]


class AcksAreNotInvented:
    """A message leaves a queue because a consumer acknowledged it, and for no other reason: what expires here
    or is rejected goes on to another queue, and nobody purges. A number may stand for another message on
    another side: any of them will do. A lease settles numbers, also of transient messages that a restart
    has ended."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[int, int], set[str]] = {}
        self._gone: set[tuple[int, int]] = set()

    def came(self, queue_id: int, sequence: int, body: str) -> None:
        """A message has got its number."""
        self._bodies.setdefault((queue_id, sequence), set()).add(body)

    def bodies(self, queue_id: int, sequence: int) -> set[str]:
        """Messages that have had a number."""
        return self._bodies.get((queue_id, sequence), set())

    def went(self, queue_id: int, sequence: int) -> None:
        """A message has left."""
        self._gone.add((queue_id, sequence))

    def finish(self, end: EndState) -> Iterator[str]:
        found = (self._bodies.get(key) for key in self._gone)
        history = end.history
        wrong = {min(bodies) for bodies in found if bodies and not bodies & history.acknowledged.keys()}
        if history.leased:
            wrong = {body for body in wrong if history.sent[body].persistent}
        if wrong:
            yield f"gone and never acknowledged: {some(wrong)}"


class MetadataIsEqual:
    """Every node has the same metadata in the end."""

    def finish(self, end: EndState) -> Iterator[str]:
        found = end.metadata()
        if len(set(found.values())) > 1:
            yield f"nodes differ in their metadata: {', '.join(sorted(found))}"


class LogsAgree:
    """What one node applied at a place in the log, every other one of the same story applies there."""

    def __init__(self) -> None:
        self._applied: dict[tuple[object, int], tuple[str, bytes]] = {}
        self._wrong: list[str] = []

    def applied(self, node: str, story: object, index: int, entry: bytes) -> None:
        """A node has applied an entry."""
        other, known = self._applied.setdefault((story, index), (node, entry))
        if known != entry:
            self._wrong.append(f"{other} and {node} applied different entries at {index}")

    def finish(self, end: EndState) -> Iterator[str]:
        yield from dict.fromkeys(self._wrong)


class HeldIsNotRedelivered:
    """G5 with `ha-redeliver: lost`: a message is delivered again only when each client that had it has given
    it back or lost its connection. Dead letters and orphans are other messages with the same body."""

    def __init__(self, kept: Callable[[str], bool]) -> None:
        self._kept = kept
        """Are messages of this queue kept by those who hold them?"""
        self._excused = False

    def excuse(self) -> None:
        """Two sides went on, each by itself, or the policy was another one for a while."""
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
    """Every message of a queue is ready or with a client: none is kept for somebody who is gone."""

    def finish(self, end: EndState) -> Iterator[str]:
        yield from end.stranded()


class EverythingSettles:
    """Liveness: when the faults are over, all nodes serve, all rings are whole, all queues are drained."""

    def finish(self, end: EndState) -> Iterator[str]:
        yield from end.unsettled()
