"""Protocol of range reads and leases: requests and replies. See docs/ranges.md.

A request is a message to the default exchange with the routing key `amq.mirrormq.ranges`, with `reply_to`
set to `amq.rabbitmq.reply-to` and a correlation id. Its headers are the request. The reply-to consumer
receives the reply under the same correlation id. The reply's `type` is "ok" or "error". The headers of an
error are `code`, `text` and `reason` (`ranges.error_reasons`).

    ask       headers                                      reply's headers and body
    extent    queue                                        first next ready ready_bytes durable id master
                                                           synchronised
    read      queue from to limit_bytes; body: spans       from next to; body: a batch (`range_batch`)
    take      queue lease number messages bytes idle_ms    number from to count bytes; body: spans
    settle    queue lease number digest | to               count
    renew     queue lease                                  –
    release   queue lease                                  count
    leases    queue                                        body: JSON, a list
    queues    –                                            node (that replies); body: JSON, a list of names
    report    job kind state text numbers table            kept
    batch     producer batch digest generation             producer epoch
    end       write                                        –

Any request about a queue may carry its `id`: the broker refuses it if the queue was deleted and declared
again. `take`, `settle` and `renew` may carry an `owner`: the broker refuses another owner while this one uses
the lease. `release` may carry `empty`: the lease ends only if it holds no message.

Spans are packed (first, count) pairs (`sequences.spans`). In a `read` they are optional: the reply then has
only messages of these spans.

The client chooses a take's `number`; numbers grow. Repeating a number returns the same messages until the
take is settled. `settle` with a number acknowledges all takes up to that one. `settle` with `to`
acknowledges all leased messages with lower sequences. That is only safe for a client that has processed all
of them: requeued messages are taken later and have lower sequences. If both sides of a partition serve
clients, a lease can have taken different messages under one number. With the `digest` of the spans
(`sequences.spans`), `settle` acknowledges exactly the takes that the client means, or none.

`report` publishes the progress of a job, for operators to see (`report` below).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mirrormq.ranges import range_limits
from mirrormq.wire.fields import Field, Table, plain, table_of

ROUTING_KEY = "amq.mirrormq.ranges"
"""Routing key of requests, on the default exchange. Clients cannot declare a queue of this name."""

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
END = "end"
ASKS = (EXTENT, READ, TAKE, SETTLE, RENEW, RELEASE, LEASES, QUEUES, REPORT, BATCH, END)

RUNNING = "running"
DONE = "done"
FAILED = "failed"
JOB_STATES = (RUNNING, DONE, FAILED)

Scalar = bool | int | float | str


class QueueExtent(NamedTuple):
    """Sequences, size and replicas of a queue."""

    first: int
    """Lowest sequence in the queue, ready or unacked; equals `next` if the queue is empty."""
    next: int
    """Sequence of the next message."""
    ready: int
    ready_bytes: int
    durable: bool
    id: int
    """Number of the queue; a queue declared again after deletion has another."""
    master: str
    synchronised: tuple[str, ...]
    """Synchronised nodes, the master first."""

    @property
    def mean_bytes(self) -> float:
        """Mean body size of the ready messages."""
        return self.ready_bytes / self.ready if self.ready else 0.0


class RangePart(NamedTuple):
    """Interval of sequences that a reply to `read` covers."""

    from_: int
    next: int
    """Sequence at which to continue; equals `to` at the end."""
    to: int
    damaged: int = 0
    """Number of messages left out, because no reachable node has a good copy of their records."""


@dataclass(frozen=True, slots=True)
class TakenSpans:
    """Summary of a take; the spans are the body of the reply."""

    number: int
    from_: int
    """Lowest sequence of the take; 0 if no message was ready."""
    to: int
    """Highest sequence of the take plus one; 0 if no message was ready."""
    count: int
    bytes: int
    """Size of the message bodies."""


class LeaseTakeEntry(msgspec.Struct, frozen=True):
    """Unsettled take, as `leases` lists it."""

    number: int
    from_: int = msgspec.field(name="from")
    to: int
    count: int
    bytes: int


class LeaseEntry(msgspec.Struct, frozen=True):
    """Lease, as `leases` lists it."""

    vhost: str
    queue: str
    name: str
    number: int
    """Highest take so far, settled or not."""
    from_: int = msgspec.field(name="from")
    to: int
    count: int
    bytes: int
    idle_ms: int
    idle_since: int | None
    """Time of last use, in milliseconds since the Unix epoch; only the master's node knows."""
    user: str
    takes: list[LeaseTakeEntry]


def extent(queue: str) -> Table:
    """Build a request for the extent of a queue."""
    return table_of({"ask": EXTENT, "queue": queue})


def read(
    queue: str, from_: int, to: int, limit_bytes: int, *, without_bodies: bool = False,
    with_ingestion_times: bool = False,
) -> Table:  # fmt: skip
    """Build a request for the messages [from, to), as many as the limit allows. The body may carry spans."""
    flags = {"without_bodies": without_bodies, "with_ingestion_times": with_ingestion_times}
    asked: dict[str, object] = {name: True for name, on in flags.items() if on}
    asked |= {"ask": READ, "queue": queue, "from": from_, "to": to, "limit_bytes": limit_bytes}
    return table_of(asked)


def meant(request: Table, queue_id: int = 0, owner: str = "") -> Table:
    """Restrict a request to the queue with this id and to this owner of the lease."""
    added: dict[str, object] = {}
    if queue_id:
        added["id"] = queue_id
    if owner:
        added["owner"] = owner
    return request | table_of(added)


def renew(queue: str, lease: str) -> Table:
    """Build a request that keeps the lease in use."""
    return table_of({"ask": RENEW, "queue": queue, "lease": lease})


def take(
    queue: str, lease: str, number: int, messages: int, bytes_: int = 0, idle_ms: int | None = None
) -> Table:
    """Build a request that takes up to `messages` ready messages under the lease's name; 0 bytes means no
    limit."""
    request: dict[str, object] = {
        "ask": TAKE, "queue": queue, "lease": lease, "number": number, "messages": messages, "bytes": bytes_,
    }  # fmt: skip
    if idle_ms is not None:
        request["idle_ms"] = idle_ms
    return table_of(request)


def settle(
    queue: str, lease: str, *, number: int | None = None, to: int | None = None, digest: int | None = None
) -> Table:
    """Build a request that acknowledges the takes up to `number`, or the leased messages below `to`."""
    request: dict[str, object] = {"ask": SETTLE, "queue": queue, "lease": lease}
    if number is not None:
        request["number"] = number
    if to is not None:
        request["to"] = to
    if digest is not None:
        request["digest"] = digest
    return table_of(request)


def release(queue: str, lease: str) -> Table:
    """Build a request that returns all leased messages."""
    return table_of({"ask": RELEASE, "queue": queue, "lease": lease})


def leases(queue: str | None = None) -> Table:
    """Build a request for the list of leases."""
    return table_of({"ask": LEASES} if queue is None else {"ask": LEASES, "queue": queue})


def queues() -> Table:
    """Build a request for the readable queues of the vhost and the name of the node that replies."""
    return table_of({"ask": QUEUES})


def batch(producer: str, number: int, digest: str, generation: str) -> Table:
    """Build a request that announces a batch before it is published. `digest` covers all its messages in
    order. `generation` is random; the cluster uses it if it does not know the producer."""
    return table_of(
        {"ask": BATCH, "producer": producer, "batch": number, "digest": digest, "generation": generation}
    )


def end(write: str) -> Table:
    """Build a request that lets the producers `write/…` be forgotten: their batches are never repeated."""
    return table_of({"ask": END, "write": write})


def report(
    job: str, kind: str, state: str, text: str = "", numbers: Mapping[str, Scalar] | None = None,
    rows: Iterable[Mapping[str, object]] = (),
) -> Table:  # fmt: skip
    """Build a progress report of a job. `job` names one run and stays the same until the run ends. Send one
    at least once a minute and at most once a second. Rows (flat: numbers, texts, times) are cut to the size
    limit."""
    reported = {name: value for name, value in (numbers or {}).items() if _is_finite(value)}
    shown = text.encode("utf-8", "replace")[: range_limits.JOB_TEXT_BYTES_MAX].decode("utf-8", "ignore")
    request: dict[str, object] = {
        "ask": REPORT, "job": job, "kind": kind, "state": state, "text": shown, "numbers": table_of(reported),
    }  # fmt: skip
    if table := report_table(rows):
        request["table"] = table
    return table_of(request)


def report_table(rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return the rows that fit into a report, as JSON; empty without rows."""
    kept, size = [], 2
    for row in rows:
        encoded = msgspec.json.encode(row)
        size += len(encoded) + 1
        if size > range_limits.JOB_TABLE_BYTES_MAX:
            break
        kept.append(encoded)
    return b"[" + b",".join(kept) + b"]" if kept else b""


# -- replies ----------------------------------------------------------------------------------------


def extent_answer(found: QueueExtent) -> Table:
    """Encode an extent as reply headers."""
    return _long({**found._asdict(), "synchronised": list(found.synchronised)})


def read_extent(headers: Mapping[str, Any]) -> QueueExtent:
    """Decode an extent from reply headers, given as a table or as native values."""
    values = _native(headers)
    values["synchronised"] = tuple(values["synchronised"])
    return QueueExtent(**{name: values[name] for name in QueueExtent._fields})


def part_answer(part: RangePart) -> Table:
    """Encode an interval as reply headers."""
    values = {"from": part.from_, "next": part.next, "to": part.to}
    return _long(values | ({"damaged": part.damaged} if part.damaged else {}))


def read_part(headers: Mapping[str, Any]) -> RangePart:
    """Decode an interval from reply headers."""
    values = _native(headers)
    return RangePart(values["from"], values["next"], values["to"], values.get("damaged", 0))


def taken_answer(taken: TakenSpans) -> Table:
    """Encode the summary of a take as reply headers."""
    values = {"number": taken.number, "from": taken.from_, "to": taken.to}
    return _long({**values, "count": taken.count, "bytes": taken.bytes})


def read_taken(headers: Mapping[str, Any]) -> TakenSpans:
    """Decode the summary of a take from reply headers."""
    values = _native(headers)
    return TakenSpans(values["number"], values["from"], values["to"], values["count"], values["bytes"])


def counted_answer(count: int) -> Table:
    """Encode the number of messages that were settled or returned."""
    return _long({"count": count})


def batch_answer(producer: str, epoch: int) -> Table:
    """Encode the value for the header `x-producer`, and how many other contents the batch had before."""
    return table_of({"producer": producer}) | _long({"epoch": epoch})


def leases_answer(entries: list[LeaseEntry]) -> bytes:
    """Encode leases as a reply body."""
    return msgspec.json.encode(entries)


def read_leases(body: bytes) -> list[LeaseEntry]:
    """Decode leases from a reply body."""
    return msgspec.json.decode(body, type=list[LeaseEntry])


def queues_answer(node: str, names: list[str]) -> tuple[Table, bytes]:
    """Encode node and queue names as reply headers and body."""
    return table_of({"node": node}), msgspec.json.encode(names)


def read_queues(headers: Mapping[str, Any], body: bytes) -> tuple[str, list[str]]:
    """Decode the node and the queue names of a reply."""
    return _native(headers)["node"], msgspec.json.decode(body, type=list[str])


def _native(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return headers as native values; the client may hold a table of fields or native values."""
    if any(isinstance(value, Field) for value in headers.values()):
        return plain(dict(headers))
    return dict(headers)


def _long(values: Mapping[str, object]) -> Table:
    """Encode numbers with 64 bits, however small they are."""
    table = table_of({name: value for name, value in values.items() if not _is_number(value)})
    numbers = {name: Field("l", value) for name, value in values.items() if _is_number(value)}
    return table | numbers


def _is_finite(value: Scalar) -> bool:
    """Whether a field table can hold the value: it has no infinities and no NaN."""
    return not isinstance(value, float) or math.isfinite(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
