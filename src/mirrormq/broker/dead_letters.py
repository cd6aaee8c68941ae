"""Dead letters: what a queue drops goes on to an exchange, with its history in the headers.

`x-death` counts, per queue and reason, how often and why a message has died. A message that comes
back to a queue by dying alone (nobody rejected it on the way) would circle forever: it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq.broker import copies
from mirrormq.broker.counters import publish_own
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.face import QueueFace
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue import Queue
from mirrormq.wire.content import with_properties
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

if TYPE_CHECKING:
    from mirrormq.broker.vhost import Vhost


def dead_letter(vhost: Vhost, queue: Queue, messages: Sequence[Message], reason: str) -> None:
    """Publish messages that left `queue` for `reason` to its dead-letter exchange."""
    exchange = queue.settings.dead_letter_exchange
    if exchange is None or vhost.find_exchange(exchange) is None:
        return
    vhost.broker.events.dead_lettered[reason] += len(messages)
    for message in messages:
        _dead_letter_one(vhost, queue, message, reason, exchange)


def _dead_letter_one(vhost: Vhost, queue: Queue, message: Message, reason: str, exchange: str) -> None:
    properties = decode_properties(message.envelope.properties, 0)
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
    for target in targets:
        if _has_room(target) and (reason == "rejected" or not _circles(headers, target.name, queue.name)):
            publish_own(target, [Message(envelope, frames)])


def _has_room(target: QueueFace) -> bool:
    """A queue of another node that can take no more has nowhere to keep it; one of this node has."""
    return not target.full or isinstance(target, Queue)


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
    """The headers with this death at the front of `x-death`, counted with its equals. The others
    change places each time, as RabbitMQ's grouping turns them around."""
    headers = dict(properties.headers or {})
    deaths = _deaths(headers)[::-1]
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


def _new_death(
    vhost: Vhost, properties: BasicProperties, envelope: Envelope, queue: str, reason: str, headers: Table
) -> Table:
    keys = [envelope.routing_key, *copies.header_keys(headers, "CC")]
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


def _circles(headers: Table, target: str, source: str) -> bool:
    """Has the message been in `target` before, and only died by itself since?"""
    deaths = _deaths(headers)
    for index, death in enumerate(deaths):
        if _is(death, "queue", target):
            return all(not _is(entry, "reason", "rejected") for entry in deaths[: index + 1])
    return False
