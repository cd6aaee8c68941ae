"""Dead letters: what a queue drops goes on to an exchange, with its history in the headers.

`x-death` counts, per queue and reason, how often and why a message has died. A message that comes
back to a queue by dying alone (nobody rejected it on the way) would circle forever: it is dropped.

A message leaves the queue that it died in when it is as safe where it goes to as a confirmed publish would
be. So a node that dies in between leaves it in one of the queues, or in both; never in none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirrormq.broker import sender_selected_routing
from mirrormq.broker.traffic_counters import publish_own
from mirrormq.queues.envelope import make_envelope
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


class PendingDeadLetter:
    """The publisher of dead letters: their queue keeps them until all those they were sent to have them."""

    def __init__(
        self,
        messages: Sequence[Message],
        on_dead_lettered: OnDeadLettered,
        unwanted: Callable[[Message], None],
    ) -> None:
        self._messages = messages
        self._dead_letter_confirmed = on_dead_lettered
        self._unwanted = unwanted
        """Told of a message that one of them would not have."""
        self._refused: set[int] = set()
        self._open: dict[int, int] = {}
        """How many queues must still speak of a message."""
        self._at_once: list[Message] | None = []
        """Those of which all have spoken while they are being published."""

    def sent_to(self, number: int, queues: int) -> None:
        """A message is about to be published to so many queues."""
        self._open[number] = queues
        if not queues:
            self._done([number])

    def all_sent(self) -> None:
        """From now on answers come one by one."""
        done, self._at_once = self._at_once, None
        if done:
            self._dead_letter_confirmed(done)

    def confirmed(self, first: int, last: int) -> None:
        """One queue has these."""
        done = []
        for number in range(first, last + 1):
            self._open[number] -= 1
            if not self._open[number]:
                done.append(number)
        if done:
            self._done(done)

    def refused(self, number: int) -> None:
        """A queue would not have it."""
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
    """Publish messages that are to leave `queue` for `reason` to its dead-letter exchange."""
    exchange = queue.settings.dead_letter_exchange
    if exchange is None or vhost.find_exchange(exchange) is None:
        on_dead_lettered(messages)
        return
    pending_dead_letter = PendingDeadLetter(
        messages, on_dead_lettered, partial(_unwanted, vhost, queue, reason, on_dead_lettered)
    )
    for number, message in enumerate(messages):
        envelope, frames, targets = _last_journey(vhost, queue, message, reason, exchange)
        crowded = next((target for target in targets if not _has_room(target)), None)
        if crowded is not None:
            crowded.when_room(partial(vhost.dead_letter, queue, [message], reason, on_dead_lettered))
            continue
        vhost.broker.events.dead_lettered[reason] += 1
        pending_dead_letter.sent_to(number, len(targets))
        for target in targets:
            publish_own(target, [Message(envelope, frames)], pending_dead_letter, number)
    pending_dead_letter.all_sent()


def _unwanted(
    vhost: Vhost, queue: Queue, reason: str, on_dead_lettered: OnDeadLettered, message: Message
) -> None:
    """A queue that has gone down meanwhile is waited for; one that is full has been asked once."""
    exchange = queue.settings.dead_letter_exchange
    if exchange is not None and vhost.find_exchange(exchange) is not None:
        _, _, targets = _last_journey(vhost, queue, message, reason, exchange)
        if any(isinstance(target, DownQueue) for target in targets):
            vhost.dead_letter(queue, [message], reason, on_dead_lettered)
            return
    on_dead_lettered([message])


def _last_journey(
    vhost: Vhost, queue: Queue, message: Message, reason: str, exchange: str
) -> tuple[Envelope, bytes, tuple[QueueInterface, ...]]:
    """What a dead letter looks like, and the queues that it goes to."""
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
    return envelope, frames, targets


def _has_room(target: QueueInterface) -> bool:
    """A queue of another node may have nowhere to keep it now, or be down; one of this node has room."""
    return isinstance(target, Queue) or not (target.full or isinstance(target, DownQueue))


def _text(value: str) -> Field:
    return Field("S", value.encode("utf-8", "surrogateescape"))


def _deaths(headers: Table) -> list[Table]:
    field = headers.get("x-death")
    if field is None or not isinstance(field.value, list):
        return []
    return [entry.value for entry in field.value if isinstance(entry.value, dict)]


def _with_death(
    vhost: Vhost, properties: BasicProperties, envelope: Envelope, queue: str, reason: str
) -> Table:
    """The headers with this death at the front of `x-death`, counted with its equals."""
    headers = dict(properties.headers or {})
    deaths = _grouped(_deaths(headers))
    same = next((d for d in deaths if _is(d, "queue", queue) and _is(d, "reason", reason)), None)
    if same is None:
        death = _new_death(vhost, properties, envelope, queue, reason, headers)
    else:
        deaths.remove(same)
        count = same["count"].value if "count" in same else 0
        death = {**same, "count": Field("l", (count if isinstance(count, int) else 0) + 1)}
    first_time = "x-death" not in headers
    headers["x-death"] = Field("A", [Field("F", entry) for entry in [death, *deaths]])
    if first_time:
        headers["x-first-death-exchange"] = _text(envelope.exchange)
        headers["x-first-death-queue"] = _text(queue)
        headers["x-first-death-reason"] = _text(reason)
    return headers


def _grouped(deaths: list[Table]) -> list[Table]:
    """One entry for each queue and reason. A publisher may bring several: the first stands for all, with its
    own count or else their number. Groups are in reverse order, as RabbitMQ's grouping leaves them."""
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


def _new_death(
    vhost: Vhost, properties: BasicProperties, envelope: Envelope, queue: str, reason: str, headers: Table
) -> Table:
    keys = [envelope.routing_key, *sender_selected_routing.header_keys(headers, "CC")]
    death: Table = {
        "count": Field("l", 1),
        "reason": _text(reason),
        "queue": _text(queue),
        "time": Field("T", vhost.clock.now_ms // 1000),
        "exchange": _text(envelope.exchange),
        "routing-keys": Field("A", [_text(key) for key in keys]),
    }
    if properties.expiration is not None:
        death["original-expiration"] = _text(properties.expiration)
    return death


def _is(death: Table, name: str, value: str) -> bool:
    field = death.get(name)
    return field is not None and field.value == value.encode("utf-8", "surrogateescape")


def _circles(headers: Table, target: str) -> bool:
    """Has the message been in `target` before, and only died by itself since?"""
    deaths = _deaths(headers)
    for index, death in enumerate(deaths):
        if _is(death, "queue", target):
            return all(not _is(entry, "reason", "rejected") for entry in deaths[: index + 1])
    return False
