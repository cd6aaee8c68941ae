"""Dead-lettering: a queue republishes the messages it drops to an exchange, with their history in the
headers.

`x-death` counts, per queue and reason, how often a message was dead-lettered. A message that returns to a
queue without a rejection by a consumer in between would cycle forever; such a message is dropped.

A message leaves its queue when the target queues hold it as safely as a confirmed publish. If a node fails in
between, one of the queues or both hold the message; never none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.broker.traffic_counters import publish_own
from mirrormq.queues import sender_selected_routing
from mirrormq.queues.death_headers import first_death, new_death, with_first_death
from mirrormq.queues.envelope import PUBLISH_IDS_SIZE, make_envelope
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_host import OnDeadLettered
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.remote.down_queue import DownQueue
from mirrormq.wire.content import with_properties
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

if TYPE_CHECKING:
    from mirrormq.broker.vhost import Vhost


Targets = tuple[QueueInterface, ...]
NO_TARGETS: Targets = ()


class DeadLetterBacklog:
    """Dead letters of a vhost that are not published yet, oldest first; implements
    `queues.queue_interface.Pumped`.

    The vhost publishes them at the end of the operation that produces them. Dead letters with large headers
    take long, so a turn publishes a limited number of bytes; the rest follows in later turns, in order.
    """

    deleted = False

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._waiting: deque[tuple[Queue, Sequence[Message], str, OnDeadLettered]] = deque()
        self.awake = False
        self._turn = -1
        self._allowance_bytes = 0
        """Bytes of large headers that may still be published in this turn."""

    def add(
        self, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
    ) -> None:
        self._waiting.append((queue, messages, reason, on_dead_lettered))

    def publish(self) -> None:
        """Publish dead letters within the allowance of this turn, and leave the rest to the next turn."""
        if self._turn != self._vhost.broker.turns:
            self._turn = self._vhost.broker.turns
            self._allowance_bytes = limits.DEAD_LETTERS_HEADER_BYTES_MAX
        while self._waiting:
            if self._allowance_bytes <= 0:
                self._vhost.broker.wake(self)
                return
            queue, messages, reason, on_dead_lettered = self._waiting.popleft()
            count = self._affordable(messages)
            if count < len(messages):
                self._waiting.appendleft((queue, messages[count:], reason, on_dead_lettered))
            dead_letter(self._vhost, queue, messages[:count], reason, on_dead_lettered)

    def _affordable(self, messages: Sequence[Message]) -> int:
        """Count the messages that the allowance covers, at least one, and subtract them from it."""
        for number, message in enumerate(messages, start=1):
            size_bytes = len(message.properties)
            if size_bytes > limits.DEAD_LETTER_HEADER_BYTES:
                self._allowance_bytes -= size_bytes
                if self._allowance_bytes <= 0:
                    return number
        return len(messages)

    def pump(self) -> bool:
        """Publish more dead letters in a new turn."""
        with self._vhost.dead_letters_later():
            pass
        return False


class PendingDeadLetter:
    """Dead letter publisher: the queue keeps its dead letters until every target queue has confirmed."""

    def __init__(
        self,
        messages: Sequence[Message],
        on_dead_lettered: OnDeadLettered,
        unwanted: Callable[[Message], None],
    ) -> None:
        self._messages = messages
        self._dead_letter_confirmed = on_dead_lettered
        self._unwanted = unwanted
        """Callback for a message that a target queue has refused."""
        self._refused: set[int] = set()
        self._open: dict[int, int] = {}
        """Number of target queues that have not confirmed or refused a message yet."""
        self._at_once: list[Message] | None = []
        """Messages that are complete while publishing is under way; None afterwards."""

    def sent_to(self, number: int, queues: int) -> None:
        """Register the number of target queues of a message before it is published."""
        self._open[number] = queues
        if not queues:
            self._done([number])

    def all_sent(self) -> None:
        """Report the messages that are complete, and report later ones as their confirms arrive."""
        done, self._at_once = self._at_once, None
        if done:
            self._dead_letter_confirmed(done)

    def confirmed(self, first: int, last: int) -> None:
        """Count the confirm of one target queue for a span of messages."""
        done = []
        for number in range(first, last + 1):
            self._open[number] -= 1
            if not self._open[number]:
                done.append(number)
        if done:
            self._done(done)

    def refused(self, number: int) -> None:
        """Count the refusal of one target queue."""
        self._refused.add(number)
        self.confirmed(number, number)

    def _done(self, numbers: list[int]) -> None:
        messages = []
        for number in numbers:
            del self._open[number]
            if number in self._refused:
                self._unwanted(self._messages[number])
            else:
                messages.append(self._messages[number])
        if self._at_once is None:
            self._dead_letter_confirmed(messages)
        else:
            self._at_once += messages


def dead_letter(
    vhost: Vhost, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
) -> None:
    """Publish messages that leave `queue` for `reason` to its dead-letter exchange."""
    exchange = queue.settings.dead_letter_exchange
    if exchange is None or vhost.find_exchange(exchange) is None:
        on_dead_lettered(messages)
        return
    pending_dead_letter = PendingDeadLetter(
        messages, on_dead_lettered, partial(_unwanted, vhost, queue, reason, on_dead_lettered)
    )
    addresses: dict[str, _Address] = {}
    batch, batch_targets, first = list[Message](), NO_TARGETS, 0
    for number, message in enumerate(messages):
        letter, targets = _plain_dead_letter(vhost, queue, message, reason, exchange, addresses)
        if letter is None:
            letter, targets = _decoded_dead_letter(vhost, queue, message, reason, exchange)
        crowded = next((target for target in targets if not _has_room(target)), None)
        if (
            crowded is not None
            or not batch
            or targets is not batch_targets
            or letter.envelope.persistent is not batch[0].envelope.persistent
        ):
            _publish_batch(batch_targets, batch, pending_dead_letter, first)
            batch, batch_targets, first = [], targets, number
        if crowded is not None:
            crowded.when_room(partial(vhost.dead_letter, queue, [message], reason, on_dead_lettered))
            continue
        vhost.broker.events.dead_lettered[reason] += 1
        pending_dead_letter.sent_to(number, len(targets))
        batch.append(letter)
    _publish_batch(batch_targets, batch, pending_dead_letter, first)
    pending_dead_letter.all_sent()


class _Address:
    """Envelopes and target queues of plain dead letters with one routing key."""

    __slots__ = ("_envelopes", "_exchange", "_key", "_publish", "targets")

    def __init__(self, vhost: Vhost, queue: Queue, reason: str, exchange: str, key: str) -> None:
        self._exchange, self._key = exchange, key
        self._publish = encode_basic_publish(exchange, key)
        self._envelopes: dict[tuple[bool, int], Envelope] = {}
        targets = vhost.queues_for(exchange, key)
        # A message that was never dead-lettered before can only circle back to the queue that it leaves.
        if reason != "rejected":
            targets = tuple([target for target in targets if target.name != queue.name])
        self.targets = targets

    def envelope(self, persistent: bool, priority: int) -> Envelope:
        """Return the envelope of dead letters with this delivery mode and priority, without expiration."""
        found = self._envelopes.get((persistent, priority))
        if found is None:
            publish = self._publish
            suffix = b"\x00" + publish[PUBLISH_IDS_SIZE:-1] + b"\xce"
            found = self._envelopes[persistent, priority] = Envelope(
                publish, self._exchange, self._key, False, None, persistent, priority, None, suffix
            )
        return found


def _plain_dead_letter(
    vhost: Vhost, queue: Queue, message: Message, reason: str, exchange: str, addresses: dict[str, _Address]
) -> tuple[Message, Targets] | tuple[None, Targets]:
    """Return a dead letter and its target queues without decoding the message; None where that is needed."""
    source = message.envelope
    if source.hidden_keys or not vhost.router.may_remember(exchange):
        return None, NO_TARGETS
    time_s = vhost.clock.now_ms // 1000
    payload = with_first_death(
        message.properties, queue.name, reason, source.exchange, source.routing_key, time_s
    )
    if payload is None:
        return None, NO_TARGETS
    frames = with_properties(message.frames, payload)
    given = queue.settings.dead_letter_routing_key
    key = source.routing_key if given is None else given
    address = addresses.get(key)
    if address is None:
        address = addresses[key] = _Address(vhost, queue, reason, exchange, key)
    envelope = address.envelope(source.persistent, source.priority)
    return Message(envelope, frames, body_size=message.body_size), address.targets


def _publish_batch(
    targets: Targets, batch: list[Message], pending_dead_letter: PendingDeadLetter, first: int
) -> None:
    """Publish consecutive dead letters to their common target queues."""
    for target in targets if batch else ():
        copies = [Message(each.envelope, each.frames, body_size=each.body_size) for each in batch]
        publish_own(target, copies, pending_dead_letter, first)


def _unwanted(
    vhost: Vhost, queue: Queue, reason: str, on_dead_lettered: OnDeadLettered, message: Message
) -> None:
    """Retry a refused dead letter if a target queue is down now; drop it if the target queue was full."""
    exchange = queue.settings.dead_letter_exchange
    if exchange is not None and vhost.find_exchange(exchange) is not None:
        _, targets = _decoded_dead_letter(vhost, queue, message, reason, exchange)
        if any(isinstance(target, DownQueue) for target in targets):
            vhost.dead_letter(queue, [message], reason, on_dead_lettered)
            return
    on_dead_lettered([message])


def _decoded_dead_letter(
    vhost: Vhost, queue: Queue, message: Message, reason: str, exchange: str
) -> tuple[Message, Targets]:
    """Return a dead letter and its target queues."""
    properties = decode_properties(message.properties, 0)
    key = queue.settings.dead_letter_routing_key
    headers = _with_death(vhost, properties, message.envelope, queue.name, reason)
    if key is not None:
        headers.pop("CC", None)
    changed = properties._replace(headers=headers, expiration=None)
    payload = encode_properties(changed)
    envelope = make_envelope(
        encode_basic_publish(exchange, message.envelope.routing_key if key is None else key), payload
    )
    if key is None:
        envelope.hidden_keys = message.envelope.hidden_keys
    frames = with_properties(message.frames, payload)
    _, targets, _ = vhost.route(envelope, headers, [frames])
    if reason != "rejected":
        targets = tuple(target for target in targets if not _circles(headers, target.name))
    return Message(envelope, frames), targets


def _has_room(target: QueueInterface) -> bool:
    """Return whether a target queue takes a dead letter now. A local queue always does; a remote one may be
    full or down."""
    return isinstance(target, Queue) or not (target.full or isinstance(target, DownQueue))


def _deaths(headers: Table) -> list[Table]:
    field = headers.get("x-death")
    if field is None or not isinstance(field.value, list):
        return []
    return [entry.value for entry in field.value if isinstance(entry.value, dict)]


def _with_death(
    vhost: Vhost, properties: BasicProperties, envelope: Envelope, queue: str, reason: str
) -> Table:
    """Return the headers with this death at the front of `x-death`, or with its existing entry counted up."""
    headers = dict(properties.headers or {})
    deaths = _grouped(_deaths(headers))
    same = next((d for d in deaths if _is(d, "queue", queue) and _is(d, "reason", reason)), None)
    if same is None:
        keys = (envelope.routing_key, *sender_selected_routing.header_keys(headers, "CC"))
        time_s = vhost.clock.now_ms // 1000
        death = new_death(queue, reason, envelope.exchange, keys, time_s, properties.expiration)
    else:
        deaths.remove(same)
        count = same["count"].value if "count" in same else 0
        death = {**same, "count": Field("l", (count if isinstance(count, int) else 0) + 1)}
    first_time = "x-death" not in headers
    headers["x-death"] = Field("A", [Field("F", entry) for entry in [death, *deaths]])
    if first_time:
        headers.update(first_death(envelope.exchange, queue, reason))
    return headers


def _grouped(deaths: list[Table]) -> list[Table]:
    """Merge `x-death` entries to one per queue and reason.

    A publisher may send several. The first entry stands for all, with its own count or else their number. The
    groups are in reverse order, as in RabbitMQ.
    """
    if len(deaths) < 2:
        return deaths
    groups: dict[tuple[str, ...], tuple[Table, int]] = {}
    for entry in deaths:
        key = tuple([repr(entry[name].value) if name in entry else "" for name in ("queue", "reason")])
        first, number = groups.get(key, (entry, 0))
        groups[key] = first, number + 1
    return [
        first if "count" in first else {"count": Field("l", number), **first}
        for first, number in reversed(groups.values())
    ]


def _is(death: Table, name: str, value: str) -> bool:
    field = death.get(name)
    return field is not None and field.value == value.encode("utf-8", "surrogateescape")


def _circles(headers: Table, target: str) -> bool:
    """Return whether the message was in `target` before and no consumer has rejected it since."""
    deaths = _deaths(headers)
    for index, death in enumerate(deaths):
        if _is(death, "queue", target):
            return all(not _is(entry, "reason", "rejected") for entry in deaths[: index + 1])
    return False
