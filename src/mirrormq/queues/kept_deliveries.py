"""Deliveries that survive a failover (`ha-redeliver: lost`): gate, claims, settlements and marks of a queue.

A consumer on a surviving node keeps its deliveries when the queue's master fails. Four parts make that safe:

1.  Gate. The master delivers a message when every synchronised mirror has received it. Otherwise the message
    may vanish with the master and be published to the next one under another sequence. A consumer that
    holds it would get it twice.
2.  Claims. Every node states to the new master which sequences its clients hold (`queues.claims`). Until
    each running node has done so, the master delivers, expires, drops and purges nothing: a client may hold
    any ready message. A lost node has no claim. A node that states none within `CLAIMS_WAIT_MS` loses it,
    and messages that its clients may have held are redelivered.
3.  Settlements. A node retains the settlements of its clients until the ring has them. `after_settling`
    notifies the node.
4.  Marks. Mirrors know for each node the highest sequence that its clients have had. After a failover the
    marks of lost nodes determine which messages are redelivered. A running node states its own mark, because
    it may have had younger messages than one that was on its way to another node (`queues.overtaken`). The
    empty holder name stands for all messages that clients returned.

While the gate is on, every mirror knows it: `Gated` travels round the ring before the first message that
waits, and after the last one. A synchronised mirror that is promoted therefore has every delivered message,
and no consumer has had a publish that it does not know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mirrormq.queues.backing import ANY_SEQUENCE
from mirrormq.queues.claims import Claim, Settlement
from mirrormq.queues.consumer_turns import QueueConsumer
from mirrormq.queues.message import Message
from mirrormq.queues.overtaken import OVERTAKEN_WAIT_MS, OvertakenMessages
from mirrormq.queues.queue_interface import QueueInterface, Refused
from mirrormq.sequences.spans import spans_of_unordered

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

CLAIMS_WAIT_MS = 10_000
"""Time that a new master waits for the claims of nodes that are not known to be lost. A running node states
its claim within moments; the failure detector declares an unreachable one lost within half of this time."""

GIVEN_BACK = ""
"""Holder of messages that were requeued, rejected, or delivered before the gate was on; not a node."""


NOTHING_UNSAFE: deque[tuple[int, int]] = deque(maxlen=0)
NO_NODES: AbstractSet[str] = frozenset()
"""Placeholder, while the policy is not `lost`, for the nodes whose claims are awaited."""


class Settler(Protocol):
    """Node whose clients settle deliveries."""

    def settlements_replicated(self, count: int) -> None:
        """Notify the node that its settlements 1 to `count` are in the ring."""


class Deferred(NamedTuple):
    """Request that waits until messages may be delivered."""

    ask: Callable[[QueueInterface], None]
    refused: Refused
    local: bool
    """Requested by a client of this node. Another node repeats its request to the next master itself."""


class KeptDeliveries:
    """Gate, claims, settlements and marks of one queue. Every queue has one, so it stays small while the
    policy is not `lost`."""

    __slots__ = (
        "_awaited", "_awaited_up_to", "_deferred", "_numbered", "_own", "_queue", "_safe_up_to", "_settled",
        "_ungate_after", "_unsafe", "gated", "handed_over", "overtaken", "trusted",
    )  # fmt: skip

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.gated = False
        """Deliveries wait for the ring."""
        self.trusted = False
        """Guarantee of the earlier gate: no consumer has had a publish that this master does not know."""
        self.handed_over: set[int] | None = None
        """Sequences that this node claimed from the next master, once this object is detached."""
        self.overtaken: OvertakenMessages | None = None
        """Messages that were on their way to a client when the last master failed."""
        self._ungate_after: int | None = None
        self._safe_up_to = 0
        self._unsafe: deque[tuple[int, int]] = NOTHING_UNSAFE
        """Pairs of an operation and the last sequence that it brings to the ring."""
        self._awaited: AbstractSet[str] = NO_NODES
        """Nodes that have not stated their claim."""
        self._awaited_up_to = 0
        self._deferred: list[Deferred] = []
        self._own: dict[int, Message] = {}
        """Messages that clients of this node hold from an earlier master."""
        self._settled: list[tuple[Settler, int]] = []
        self._numbered: list[tuple[int, Settler, int]] = []
        """Settlements with the number of the operation that replicates them."""

    # -- gate -----------------------------------------------------------------------------------

    @property
    def awaiting(self) -> bool:
        """Claims of some nodes are not known yet."""
        return bool(self._awaited)

    @property
    def up_to(self) -> int:
        """Highest sequence that may be delivered."""
        if self._awaited:
            return 0
        return self._safe_up_to if self.gated else ANY_SEQUENCE

    def may_deliver(self) -> bool:
        """Return whether a message is ready and the ring has it."""
        if self._awaited:
            return False
        head = self._queue.backing.peek()
        return head is not None and head.sequence <= self.up_to

    def urgent_up_to(self, messages: Sequence[Message]) -> int | None:
        """Return the highest sequence to deliver for messages with a TTL of 0; None if messages in front of
        them must wait for the ring."""
        head = None if self._awaited else self._queue.backing.peek()
        if head is None or (head.sequence < messages[0].sequence and head.sequence > self.up_to):
            return None
        return max(self.up_to, messages[-1].sequence)

    def follow_settings(self) -> None:
        """Turn the gate on or off after a change of policies or mirrors."""
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
            # The gate stays until every mirror knows: one that is promoted before would trust it wrongly.
            mirrored.tell_gated(False)
            self._ungate_after = mirrored.last_number

    def _open(self) -> None:
        self.gated, self._ungate_after, self._safe_up_to = False, None, 0
        self._unsafe = NOTHING_UNSAFE
        self._confirm_settlements([*[numbered[1:] for numbered in self._numbered], *self._settled])
        self._settled, self._numbered = [], []

    def published(self, sequence: int) -> None:
        """Withhold messages up to `sequence` until the ring has received them."""
        if self.gated and self._queue.mirrored is not None:
            self._unsafe.append((self._queue.mirrored.last_number, sequence))

    def completed(self, received: int) -> bool:
        """Record that every synchronised mirror has received operations up to `received`; True if more
        messages may be delivered now."""
        if self._settled or self._numbered:
            self._report_settlements(received)
        before = self.up_to
        unsafe = self._unsafe
        while unsafe and unsafe[0][0] <= received:
            self._safe_up_to = max(self._safe_up_to, unsafe.popleft()[1])
        if self._ungate_after is not None and self._ungate_after <= received:
            self._open()
        return self.up_to > before

    # -- deferred requests ----------------------------------------------------------------------

    def defer(self, deferred: Deferred) -> None:
        """Repeat the request when messages may be delivered."""
        self._deferred.append(deferred)

    def ask_deferred(self) -> None:
        """Repeat the deferred requests, unless claims are awaited; a request may be deferred again."""
        if self._deferred and not self._awaited:
            deferred, self._deferred = self._deferred, []
            for each in deferred:
                each.ask(self._queue)

    def take_deferred(self) -> list[Deferred]:
        """Remove all deferred requests, because the queue is detached or deleted; returns those of this
        node's clients."""
        deferred, self._deferred = self._deferred, []
        return [each for each in deferred if each.local]

    # -- claims ---------------------------------------------------------------------------------

    def await_claims(self, holders: set[str]) -> None:
        """Wait for the claims of these nodes after a promotion: their clients may hold messages."""
        queue = self._queue
        self._awaited = set(holders)
        self._awaited_up_to = queue.backing.next_sequence - 1
        if holders:
            queue.clock.at(queue.clock.now_ms + CLAIMS_WAIT_MS, self._stop_waiting)

    def claim(self, holder: str, sequences: Sequence[int]) -> list[Message]:
        """Accept the claim of a node; returns the claimed messages as fetched ones."""
        queue = self._queue
        messages = queue.reclaim(spans_of_unordered(sequences)) if sequences else []
        if messages:
            self.delivered(holder, max([message.sequence for message in messages]))
        self._awaited_less({holder})
        return messages

    def lost(self, is_over: Callable[[str], bool]) -> None:
        """Drop the claims of lost nodes: messages that their clients held stay ready, as redelivered ones."""
        gone = {holder for holder in self._awaited if is_over(holder)}
        mirrored = self._queue.mirrored
        for holder in sorted(gone):
            if self.overtaken is not None:
                self.overtaken.forget(holder)
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
                if self.overtaken is not None:
                    clock = self._queue.clock
                    clock.at(clock.now_ms + OVERTAKEN_WAIT_MS, self._mark_overtaken)
                self._queue.claims_known()

    # -- clients of this node -------------------------------------------------------------------

    def keep(self, holder: str, claim: Claim) -> None:
        """Claim the messages that clients of this node hold from an earlier master."""
        for message in self.claim(holder, claim.sequences):
            self._own[message.sequence] = message
        self.settle("acknowledge", claim.acknowledged)
        self.settle("requeue", claim.requeued)
        self.settle("reject", claim.rejected)

    def settle(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Settle messages that clients of this node hold from an earlier master."""
        own = self._own
        if found := [own.pop(sequence) for sequence in sequences if sequence in own]:
            getattr(self._queue, settlement)(found)

    @property
    def own(self) -> list[Message]:
        """Messages that clients of this node hold from an earlier master."""
        return list(self._own.values())

    def hand_over(self, held: Sequence[int]) -> tuple[int, ...]:
        """Return the sequences to claim from the next master: `held`, and those from masters before this
        one."""
        self.handed_over = {*held, *self._own}
        return tuple(sorted(self.handed_over))

    def forward(self, settlement: Settlement, messages: Sequence[Message]) -> None:
        """Forward settlements to the successor of this detached queue object."""
        successor, handed_over = self._queue.successor, self.handed_over
        if successor is not None and handed_over:
            mine = [message.sequence for message in messages if message.sequence in handed_over]
            handed_over.difference_update(mine)
            successor.settle_kept(settlement, mine)

    # -- settlements ----------------------------------------------------------------------------

    def after_settling(self, settler: Settler, count: int) -> None:
        """Notify a node when everything that its clients have settled so far is in the ring."""
        if self._queue.mirrored is None:
            settler.settlements_replicated(count)
        else:
            self._settled.append((settler, count))

    def _report_settlements(self, received: int) -> None:
        mirrored = self._queue.mirrored
        # `last_number` covers the settlements only after the backing queue has sent its collected operations.
        if self._settled and mirrored is not None and not mirrored.has_unsent:
            self._numbered += [(mirrored.last_number, *settled) for settled in self._settled]
            self._settled = []
        numbered = self._numbered
        while numbered and numbered[0][0] <= received:
            self._confirm_settlements([numbered.pop(0)[1:]])

    @staticmethod
    def _confirm_settlements(settled: Sequence[tuple[Settler, int]]) -> None:
        for settler, count in settled:
            settler.settlements_replicated(count)

    # -- marks ----------------------------------------------------------------------------------

    def delivered(self, holder: str, sequence: int) -> None:
        """Record that clients of node `holder` have had messages up to `sequence`."""
        if self.gated and self._queue.mirrored is not None:
            self._queue.mirrored.delivered_to(holder, sequence)

    def may_overtake(self, holder: str, sequence: int) -> bool:
        """Record the mark of a node that will state its claim: its clients have had messages up to `sequence`
        from an earlier master. Return False if its claim does not tell which ones."""
        if not self.trusted or holder not in self._awaited:
            return False
        if self.overtaken is None:
            self.overtaken = OvertakenMessages()
        self.overtaken.state(holder, sequence)
        self._queue.delivered(sequence, holder)
        return True

    def next_turn(self) -> tuple[QueueConsumer, int] | None:
        """Return the consumer to serve, and how many messages it may get."""
        overtaken, queue = self.overtaken, self._queue
        if overtaken is not None:
            if overtaken.remain(queue):
                return overtaken.turn(queue)
            self.overtaken = None
        return queue.consumers.next()

    def _mark_overtaken(self) -> None:
        if self.overtaken is not None and not self._queue.deleted:
            highest, self.overtaken = self.overtaken.highest, None
            self._queue.delivered_before(highest)
            self._queue.became_ready()

    def given_back(self, messages: Sequence[Message]) -> None:
        """Record messages that clients requeued or rejected."""
        if self.gated and messages:
            self.delivered(GIVEN_BACK, max([message.sequence for message in messages]))
