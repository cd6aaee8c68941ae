"""Deliveries that outlive a master: the part of a queue with `ha-redeliver: lost` that survivors rely on.

A consumer on a surviving node keeps what it holds when the queue's master dies. Four things make that safe:

1.  The gate. A message is delivered when every synchronised mirror has received it. Otherwise it may vanish
    with the master and be published again to the next one, under another sequence: a consumer that holds it
    would get it twice.
2.  Claims. Every node states to the new master which sequences its clients hold (`queues.claims`). Until
    each living node has spoken, nothing is delivered, expired, dropped or purged: any ready message may be
    in somebody's hands. A node that is lost has no claim; one that stays silent for `CLAIMS_WAIT_MS` loses
    it, and what it may have held says `redelivered`.
3.  Settlements. A node keeps what its clients have settled until the ring has it. `after_settling` tells it.
4.  Marks. Mirrors know for each node up to where its clients have had messages. After a failover the marks
    of lost nodes say which messages are redelivered; a living node states its own, because a message that
    it did not claim comes behind younger ones. The empty name stands for all that was given back.

While the gate is on, every mirror knows it (`Gated` goes round the ring before the first message that waits,
and after the last one that did). So a synchronised mirror that becomes master has everything that was
delivered, and a publish that it does not know has been with no consumer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mirrormq.queues.backing import ANY_SEQUENCE
from mirrormq.queues.claims import Claim, Settlement, spans_of
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import QueueInterface, Refused

if TYPE_CHECKING:
    from mirrormq.queues.consumer_turns import QueueConsumer
    from mirrormq.queues.queue import Queue

CLAIMS_WAIT_MS = 10_000
"""How long a new master waits for the claims of nodes that are not known to be lost. A node that lives states
its claim within moments; the failure detector gives up one that cannot be reached within half of this."""

GIVEN_BACK = ""
"""Holder of what was requeued or rejected, or delivered before the gate was on: of no node in particular."""


NOTHING_UNSAFE: deque[tuple[int, int]] = deque(maxlen=0)
NOBODY: AbstractSet[str] = frozenset()
"""In place of what a queue has only while the policy is `lost`."""


class Settler(Protocol):
    """Node whose clients settle deliveries."""

    def settlements_replicated(self, count: int) -> None:
        """Settlements number 1 to `count` of this node are in the ring."""


class Deferred(NamedTuple):
    """Question that waits until messages may be delivered."""

    ask: Callable[[QueueInterface], None]
    refused: Refused
    local: bool
    """Asked by a client of this node; another node asks the next master itself."""


class KeptDeliveries:
    """Gate, claims, settlements and marks of one queue. There is one for each, so it is kept small while the
    policy is another one."""

    __slots__ = (
        "_awaited", "_awaited_up_to", "_deferred", "_own", "_queue", "_safe_up_to", "_settled", "_told",
        "_ungate_after", "_unsafe", "gated", "handed_over", "trusted",
    )  # fmt: skip

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.gated = False
        """Deliveries wait for the ring."""
        self.trusted = False
        """A publish that this master does not know has been with no consumer of an earlier one."""
        self.handed_over: set[int] | None = None
        """Sequences that were claimed from the next master, once this object is retired."""
        self._ungate_after: int | None = None
        self._safe_up_to = 0
        self._unsafe: deque[tuple[int, int]] = NOTHING_UNSAFE
        """Operations, and the last sequence that each of them brought to the ring."""
        self._awaited: AbstractSet[str] = NOBODY
        """Nodes that have not stated their claim."""
        self._awaited_up_to = 0
        self._deferred: list[Deferred] = []
        self._own: dict[int, Message] = {}
        """Messages that clients of this node hold from an earlier master."""
        self._settled: list[tuple[Settler, int]] = []
        self._told: list[tuple[int, Settler, int]] = []
        """Settlements, by the operation that carries them."""

    # -- the gate -------------------------------------------------------------------------------

    @property
    def awaiting(self) -> bool:
        """Are there nodes whose claims are not known?"""
        return bool(self._awaited)

    @property
    def up_to(self) -> int:
        """Highest sequence that may be delivered."""
        if self._awaited:
            return 0
        return self._safe_up_to if self.gated else ANY_SEQUENCE

    def may_deliver(self) -> bool:
        """Is there a ready message, and has the ring the next one?"""
        if self._awaited:
            return False
        head = self._queue.backing.peek()
        return head is not None and head.sequence <= self.up_to

    def urgent_up_to(self, messages: Sequence[Message]) -> int | None:
        """Highest sequence to deliver if these messages live for this moment only; None if messages in front
        of them have to wait for the ring."""
        head = None if self._awaited else self._queue.backing.peek()
        if head is None or (head.sequence < messages[0].sequence and head.sequence > self.up_to):
            return None
        return max(self.up_to, messages[-1].sequence)

    def follow_settings(self) -> None:
        """Policies have changed, or the queue has got mirrors or lost them."""
        mirrored = self._queue.mirrored
        if mirrored is None:
            self._open()
        elif self._queue.settings.redeliver_lost:
            if not self.gated or self._ungate_after is not None:
                self.gated, self._ungate_after = True, None
                self._unsafe = deque(self._unsafe)
                mirrored.tell_gated(True)
                self.published(mirrored.next_sequence - 1)
        elif self.gated and self._ungate_after is None:
            mirrored.tell_gated(False)
            self._ungate_after = mirrored.last_number

    def _open(self) -> None:
        self.gated, self._ungate_after, self._safe_up_to = False, None, 0
        self._unsafe = NOTHING_UNSAFE
        self._confirm_settlements([*[told[1:] for told in self._told], *self._settled])
        self._settled, self._told = [], []

    def published(self, sequence: int) -> None:
        """Messages up to this one are on their way round the ring."""
        if self.gated and self._queue.mirrored is not None:
            self._unsafe.append((self._queue.mirrored.last_number, sequence))

    def completed(self, received: int) -> bool:
        """Operations up to this one have been received by every synchronised mirror; True if more messages
        may be delivered now."""
        if self._settled or self._told:
            self._report_settlements(received)
        before = self.up_to
        unsafe = self._unsafe
        while unsafe and unsafe[0][0] <= received:
            self._safe_up_to = max(self._safe_up_to, unsafe.popleft()[1])
        if self._ungate_after is not None and self._ungate_after <= received:
            self._open()
        return self.up_to > before

    # -- questions that wait --------------------------------------------------------------------

    def defer(self, deferred: Deferred) -> None:
        """Ask again when messages may be delivered."""
        self._deferred.append(deferred)

    def ask_deferred(self) -> None:
        """Messages may be delivered: answer, or go on waiting."""
        if self._deferred and not self._awaited:
            deferred, self._deferred = self._deferred, []
            for each in deferred:
                each.ask(self._queue)

    def take_deferred(self) -> list[Deferred]:
        """The queue is retired or deleted; gives what clients of this node have asked."""
        deferred, self._deferred = self._deferred, []
        return [each for each in deferred if each.local]

    # -- claims ---------------------------------------------------------------------------------

    def await_claims(self, holders: set[str]) -> None:
        """This node has become master, and clients of these nodes may hold messages."""
        queue = self._queue
        self._awaited = set(holders)
        self._awaited_up_to = queue.backing.next_sequence - 1
        if holders:
            queue.clock.at(queue.clock.now_ms + CLAIMS_WAIT_MS, self._stop_waiting)

    def claim(self, holder: str, sequences: Sequence[int]) -> list[Message]:
        """A node has stated its claim; gives the messages that are its, as fetched ones."""
        queue = self._queue
        messages = queue.reclaim(spans_of(sequences)) if sequences else []
        if messages:
            self.delivered(holder, max([message.sequence for message in messages]))
        self._awaited_less({holder})
        return messages

    def lost(self, is_over: Callable[[str], bool]) -> None:
        """Nodes are lost: what their clients held is ready, and says that it was delivered."""
        gone = {holder for holder in self._awaited if is_over(holder)}
        mirrored = self._queue.mirrored
        for holder in sorted(gone):
            mark = mirrored.delivered_by.get(holder, 0) if mirrored is not None else self._awaited_up_to
            if mark:
                self._queue.delivered_before(mark)
        self._awaited_less(gone)

    def _stop_waiting(self) -> None:
        if self._awaited and not self._queue.deleted:
            self._queue.delivered_before(self._awaited_up_to)
            self._awaited_less(set(self._awaited))

    def _awaited_less(self, holders: set[str]) -> None:
        if self._awaited & holders:
            self._awaited = self._awaited - holders
            if not self._awaited:
                self._queue.claims_known()

    # -- clients of this node -------------------------------------------------------------------

    def keep(self, holder: str, claim: Claim) -> None:
        """Clients of this node hold messages from an earlier master."""
        for message in self.claim(holder, claim.sequences):
            self._own[message.sequence] = message
        self.settle("acknowledge", claim.acknowledged)
        self.settle("requeue", claim.requeued)
        self.settle("reject", claim.rejected)

    def settle(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Clients of this node have settled messages that they hold from an earlier master."""
        own = self._own
        if found := [own.pop(sequence) for sequence in sequences if sequence in own]:
            getattr(self._queue, settlement)(found)

    @property
    def own(self) -> list[Message]:
        """Messages that clients of this node hold from an earlier master."""
        return list(self._own.values())

    def hand_over(self, held: Sequence[int]) -> tuple[int, ...]:
        """Another node is master: clients of this node hold these, and those from masters before this one."""
        self.handed_over = {*held, *self._own}
        return tuple(sorted(self.handed_over))

    def forward(self, settlement: Settlement, messages: Sequence[Message]) -> None:
        """Clients have settled deliveries of a queue object that is retired."""
        successor, handed_over = self._queue.successor, self.handed_over
        if successor is not None and handed_over:
            mine = [message.sequence for message in messages if message.sequence in handed_over]
            handed_over.difference_update(mine)
            successor.settle_kept(settlement, mine)

    # -- settlements ----------------------------------------------------------------------------

    def after_settling(self, settler: Settler, count: int) -> None:
        """Tell a node when everything that its clients have settled so far is in the ring."""
        if self._queue.mirrored is None:
            settler.settlements_replicated(count)
        else:
            self._settled.append((settler, count))

    def _report_settlements(self, received: int) -> None:
        mirrored = self._queue.mirrored
        if self._settled and mirrored is not None and not mirrored.has_untold:
            self._told += [(mirrored.last_number, *settled) for settled in self._settled]
            self._settled = []
        told = self._told
        while told and told[0][0] <= received:
            self._confirm_settlements([told.pop(0)[1:]])

    @staticmethod
    def _confirm_settlements(settled: Sequence[tuple[Settler, int]]) -> None:
        for settler, count in settled:
            settler.settlements_replicated(count)

    # -- marks ----------------------------------------------------------------------------------

    def delivered(self, holder: str, sequence: int) -> None:
        """Clients of a node have messages up to this one."""
        if self.gated and self._queue.mirrored is not None:
            self._queue.mirrored.delivered_to(holder, sequence)

    def given_back(self, messages: Sequence[Message]) -> None:
        """Clients have requeued or rejected messages."""
        if self.gated and messages:
            self.delivered(GIVEN_BACK, max([message.sequence for message in messages]))


def holder_of(consumer: QueueConsumer, own: str) -> str:
    """Node, with its incarnation, whose client a consumer is."""
    return getattr(consumer, "holder", own)
