"""What a client may ask about ranges and leases, and how it is answered. See docs/ranges.md.

A question is a message to the default exchange with the routing key `amq.mirrormq.ranges`, with `reply_to`
set to `amq.rabbitmq.reply-to` and a correlation id; its headers are the question. The answer comes to the
reply-to consumer under the same correlation id; its `type` is "ok" or "error", an error's headers are
`code`, `text` and `reason` (`ranges.reasons`).

    ask       headers                                      answer's headers and body
    extent    queue                                        first next ready ready_bytes durable id master
                                                           synchronised
    read      queue from to limit_bytes; body: stretches   from next to; body: a batch (`ranges.batch`)
    take      queue lease number messages bytes idle_ms    number from to count bytes; body: stretches
    settle    queue lease number digest | to               count
    renew     queue lease                                  –
    release   queue lease                                  count
    leases    queue                                        body: JSON, a list
    queues    –                                            node (the one asked); body: JSON, a list of names
    report    job kind state text numbers table            kept
    batch     producer batch digest generation             producer epoch

Any question about a queue may have its `id`: a queue declared again under the name does not answer it.
`take`, `settle` and `renew` may have an `owner`: another owner is refused while this one uses the lease.
`release` may have `empty`: only a lease that holds nothing ends.

Stretches are packed (first, count) pairs (`ranges.spans`). In a `read` they are optional: only messages
in one of them are given.

A take's `number` is given by the client and grows: the same number gives the same answer again, however
often it is asked, until it is settled. `settle` with a number is done with all takes up to that one; with
`to` it is done with all leased messages whose sequence is lower, and that is only safe for a client that has
dealt with all of them: messages that came back to the queue are taken later, with lower sequences. Where
sides of a partition may go on apart a lease can have taken different messages under one number; with the
`digest` of their stretches (`ranges.spans`) only those takes are settled that are meant, or none.

`report` asks nothing: a job tells the cluster what it is about, for people to see (`report` below).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mirrormq.ranges import range_limits
from mirrormq.wire.fields import Field, Table, plain, table_of

__all__ = [
    "ASKS",
    "DONE",
    "ERROR",
    "EXTENT",
    "FAILED",
    "JOB_STATES",
    "LEASES",
    "OK",
    "QUEUES",
    "READ",
    "RELEASE",
    "RENEW",
    "REPLY_QUEUE",
    "REPORT",
    "ROUTING_KEY",
    "RUNNING",
    "SETTLE",
    "TAKE",
    "LeaseEntry",
    "LeaseTakeEntry",
    "QueueExtent",
    "RangePart",
    "Scalar",
    "TakenSpans",
    "counted_answer",
    "extent",
    "extent_answer",
    "leases",
    "leases_answer",
    "part_answer",
    "queues",
    "queues_answer",
    "read",
    "read_extent",
    "read_leases",
    "read_part",
    "read_queues",
    "read_taken",
    "release",
    "report",
    "report_table",
    "settle",
    "take",
    "taken_answer",
]

ROUTING_KEY = "amq.mirrormq.ranges"
"""Where questions are published, through the default exchange. No queue can have such a name."""

REPLY_QUEUE = "amq.rabbitmq.reply-to"

OK = "ok"
ERROR = "error"

EXTENT = "extent"
READ = "read"
TAKE = "take"
SETTLE = "settle"
RENEW = "renew"
RELEASE = "release"
LEASES = "leases"
QUEUES = "queues"
REPORT = "report"
BATCH = "batch"
ASKS = (EXTENT, READ, TAKE, SETTLE, RENEW, RELEASE, LEASES, QUEUES, REPORT, BATCH)

RUNNING = "running"
DONE = "done"
FAILED = "failed"
JOB_STATES = (RUNNING, DONE, FAILED)

Scalar = bool | int | float | str


class QueueExtent(NamedTuple):
    """What a queue holds."""

    first: int
    """The lowest sequence in the queue, ready or not; `next` if it is empty."""
    next: int
    """The sequence that the next message will get."""
    ready: int
    ready_bytes: int
    durable: bool
    id: int
    """Another number once the queue has been deleted and declared again."""
    master: str
    synchronised: tuple[str, ...]
    """The nodes that have everything, the master first."""

    @property
    def mean_bytes(self) -> float:
        """Of the bodies of what is ready."""
        return self.ready_bytes / self.ready if self.ready else 0.0


class RangePart(NamedTuple):
    """Which part of a range an answer to `read` has."""

    from_: int
    next: int
    """Where to go on; `to` when there is no more."""
    to: int


@dataclass(frozen=True, slots=True)
class TakenSpans:
    """What a take has brought; the stretches themselves are the answer's body."""

    number: int
    from_: int
    """The lowest sequence of it …"""
    to: int
    """… and one more than the highest. Both 0 if nothing was ready."""
    count: int
    bytes: int
    """Of their bodies."""


class LeaseTakeEntry(msgspec.Struct, frozen=True):
    """A take that is not settled, as `leases` lists it."""

    number: int
    from_: int = msgspec.field(name="from")
    to: int
    count: int
    bytes: int


class LeaseEntry(msgspec.Struct, frozen=True):
    """A lease, as `leases` lists it."""

    vhost: str
    queue: str
    name: str
    number: int
    """The highest take there has been, settled or not."""
    from_: int = msgspec.field(name="from")
    to: int
    count: int
    bytes: int
    idle_ms: int
    idle_since: int | None
    """When it was last used, in milliseconds since the Unix epoch; only the master's node knows."""
    user: str
    takes: list[LeaseTakeEntry]


def extent(queue: str) -> Table:
    """What does the queue hold?"""
    return table_of({"ask": EXTENT, "queue": queue})


def read(queue: str, from_: int, to: int, limit_bytes: int) -> Table:
    """Messages [from, to), as many as the limit allows. Stretches may go with it, as the body."""
    return table_of({"ask": READ, "queue": queue, "from": from_, "to": to, "limit_bytes": limit_bytes})


def meant(question: Table, queue_id: int = 0, owner: str = "") -> Table:
    """The question, to be answered only by the queue with this id and for this owner of the lease."""
    added: dict[str, object] = {}
    if queue_id:
        added["id"] = queue_id
    if owner:
        added["owner"] = owner
    return question | table_of(added)


def renew(queue: str, lease: str) -> Table:
    """The lease is in use."""
    return table_of({"ask": RENEW, "queue": queue, "lease": lease})


def take(
    queue: str, lease: str, number: int, messages: int, bytes_: int = 0, idle_ms: int | None = None
) -> Table:
    """Take so many of what is ready under the lease's name; 0 bytes: any."""
    question: dict[str, object] = {
        "ask": TAKE, "queue": queue, "lease": lease, "number": number, "messages": messages, "bytes": bytes_,
    }  # fmt: skip
    if idle_ms is not None:
        question["idle_ms"] = idle_ms
    return table_of(question)


def settle(
    queue: str, lease: str, *, number: int | None = None, to: int | None = None, digest: int | None = None
) -> Table:
    """The lease is done with its takes up to `number`, or with what is lower than `to`."""
    question: dict[str, object] = {"ask": SETTLE, "queue": queue, "lease": lease}
    if number is not None:
        question["number"] = number
    if to is not None:
        question["to"] = to
    if digest is not None:
        question["digest"] = digest
    return table_of(question)


def release(queue: str, lease: str, *, empty: bool = False) -> Table:
    """Give everything back. With `empty` the lease ends only if it holds nothing."""
    question: dict[str, object] = {"ask": RELEASE, "queue": queue, "lease": lease}
    if empty:
        question["empty"] = True
    return table_of(question)


def leases(queue: str | None = None) -> Table:
    """Which leases are there?"""
    return table_of({"ask": LEASES} if queue is None else {"ask": LEASES, "queue": queue})


def queues() -> Table:
    """Which queues of the vhost may be read, and by what name is the node known that is asked?"""
    return table_of({"ask": QUEUES})


def batch(producer: str, number: int, digest: str, generation: str) -> Table:
    """Announce a batch before it is published. `digest` is of all its messages in their order. `generation`
    is random, and used if the cluster does not know the producer."""
    return table_of(
        {"ask": BATCH, "producer": producer, "batch": number, "digest": digest, "generation": generation}
    )


def report(
    job: str, kind: str, state: str, text: str = "", numbers: Mapping[str, Scalar] | None = None,
    rows: Iterable[Mapping[str, object]] = (),
) -> Table:  # fmt: skip
    """A job's word about itself. `job` names one run of it and stays the same until that is over. Say
    something at least once a minute and at most once a second. Of the rows (flat: numbers, texts, times)
    those are sent that there is room for."""
    told = {name: value for name, value in (numbers or {}).items() if _is_finite(value)}
    shown = text.encode("utf-8", "replace")[: range_limits.JOB_TEXT_BYTES_MAX].decode("utf-8", "ignore")
    question: dict[str, object] = {
        "ask": REPORT, "job": job, "kind": kind, "state": state, "text": shown, "numbers": table_of(told),
    }  # fmt: skip
    if table := report_table(rows):
        question["table"] = table
    return table_of(question)


def report_table(rows: Iterable[Mapping[str, object]]) -> bytes:
    """As many of the rows as a report may have, as JSON; nothing if there are none."""
    kept, size = [], 2
    for row in rows:
        encoded = msgspec.json.encode(row)
        size += len(encoded) + 1
        if size > range_limits.JOB_TABLE_BYTES_MAX:
            break
        kept.append(encoded)
    return b"[" + b",".join(kept) + b"]" if kept else b""


# -- answers ----------------------------------------------------------------------------------------


def extent_answer(found: QueueExtent) -> Table:
    """As headers."""
    return _long({**found._asdict(), "synchronised": list(found.synchronised)})


def read_extent(headers: Mapping[str, Any]) -> QueueExtent:
    """Of an answer's headers, as a table or as native values."""
    values = _native(headers)
    values["synchronised"] = tuple(values["synchronised"])
    return QueueExtent(**{name: values[name] for name in QueueExtent._fields})


def part_answer(part: RangePart) -> Table:
    """As headers."""
    return _long({"from": part.from_, "next": part.next, "to": part.to})


def read_part(headers: Mapping[str, Any]) -> RangePart:
    """Of an answer's headers."""
    values = _native(headers)
    return RangePart(values["from"], values["next"], values["to"])


def taken_answer(taken: TakenSpans) -> Table:
    """As headers."""
    values = {"number": taken.number, "from": taken.from_, "to": taken.to}
    return _long({**values, "count": taken.count, "bytes": taken.bytes})


def read_taken(headers: Mapping[str, Any]) -> TakenSpans:
    """Of an answer's headers."""
    values = _native(headers)
    return TakenSpans(values["number"], values["from"], values["to"], values["count"], values["bytes"])


def counted_answer(count: int) -> Table:
    """So many messages were settled or given back."""
    return _long({"count": count})


def batch_answer(producer: str, epoch: int) -> Table:
    """The value for the header `x-producer`, and how many other contents the batch had before."""
    return table_of({"producer": producer}) | _long({"epoch": epoch})


def leases_answer(entries: list[LeaseEntry]) -> bytes:
    """As a body."""
    return msgspec.json.encode(entries)


def read_leases(body: bytes) -> list[LeaseEntry]:
    """Of an answer's body."""
    return msgspec.json.decode(body, type=list[LeaseEntry])


def queues_answer(node: str, names: list[str]) -> tuple[Table, bytes]:
    """As headers and body."""
    return table_of({"node": node}), msgspec.json.encode(names)


def read_queues(headers: Mapping[str, Any], body: bytes) -> tuple[str, list[str]]:
    """The node, and the names."""
    return _native(headers)["node"], msgspec.json.decode(body, type=list[str])


def _native(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Headers as a client may have them: a table of fields, or native values."""
    if any(isinstance(value, Field) for value in headers.values()):
        return plain(dict(headers))
    return dict(headers)


def _long(values: Mapping[str, object]) -> Table:
    """Numbers are 64 bits wide, however small they are."""
    table = table_of({name: value for name, value in values.items() if not _is_number(value)})
    numbers = {name: Field("l", value) for name, value in values.items() if _is_number(value)}
    return table | numbers


def _is_finite(value: Scalar) -> bool:
    """Field tables have no other numbers."""
    return not isinstance(value, float) or math.isfinite(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
