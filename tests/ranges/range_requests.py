"""Client of range and lease requests, based on pika."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pika
import pika.adapters.blocking_connection as blocking

from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import BatchRow, RangeBatch
from mirrormq.ranges.range_protocol import LeaseEntry, QueueExtent, TakenSpans
from mirrormq.sequences import spans
from mirrormq.sequences.spans import Span

ANSWER_TIMEOUT_S = 20


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


class Answer(NamedTuple):
    """Reply to a range request."""

    type: str
    headers: dict[str, Any]
    body: bytes


class Refused(Exception):
    """Error reply to a range request."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class Asker:
    """Connection with one channel that consumes direct replies."""

    def __init__(self, uri: str) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(uri))
        self.channel = self.connection.channel()
        self._answers: dict[str, Answer] = {}
        self._numbers = itertools.count(1)
        self.channel.basic_consume(range_protocol.REPLY_QUEUE, self._answered, auto_ack=True)

    def _answered(
        self, channel: blocking.BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes
    ) -> None:
        assert properties.correlation_id is not None and properties.type is not None
        self._answers[properties.correlation_id] = Answer(properties.type, properties.headers or {}, body)

    def put(self, headers: dict[str, Any], body: bytes = b"") -> str:
        """Send a request without waiting."""
        number = str(next(self._numbers))
        properties = pika.BasicProperties(
            headers=headers, reply_to=range_protocol.REPLY_QUEUE, correlation_id=number
        )
        self.channel.basic_publish("", range_protocol.ROUTING_KEY, body, properties)
        return number

    def wait(self, number: str) -> Answer:
        """Wait for the reply to a request."""
        for _ in range(ANSWER_TIMEOUT_S * 10):
            if number in self._answers:
                break
            self.connection.process_data_events(time_limit=0.1)
        answer = self._answers.pop(number)
        if answer.type != range_protocol.OK:
            raise Refused(answer.headers["code"], answer.headers["text"])
        return answer

    def ask(self, ask: str, body: bytes = b"", /, **values: Any) -> Answer:
        """Send a request and wait for the reply."""
        values = {name.rstrip("_"): value for name, value in values.items()}
        return self.wait(self.put({"ask": ask, **values}, body))

    # -- requests -------------------------------------------------------------------------------

    def extent(self, queue: str) -> QueueExtent:
        return range_protocol.read_extent(self.ask("extent", queue=queue).headers)

    def read_part(
        self, queue: str, first: int, to: int, limit_bytes: int = 1 << 20, wanted: list[Span] | None = None
    ) -> tuple[range_protocol.RangePart, list[BatchRow]]:
        body = b"" if wanted is None else spans.pack(wanted)
        answer = self.ask(
            "read", body, queue=queue, from_=first, to=to, limit_bytes=limit_bytes, with_ingestion_times=True
        )
        return range_protocol.read_part(answer.headers), list(RangeBatch(answer.body))

    def read(self, queue: str, first: int, to: int, limit_bytes: int = 1 << 20) -> list[BatchRow]:
        """Read a whole range, part by part."""
        rows: list[BatchRow] = []
        while first < to:
            part, more = self.read_part(queue, first, to, limit_bytes)
            assert part.next > first
            rows, first = rows + more, part.next
        return rows

    def take(self, queue: str, lease: str, number: int, messages: int, **more: int) -> list[Span]:
        answer = self.ask("take", queue=queue, lease=lease, number=number, messages=messages, **more)
        found = spans.unpack(answer.body)
        taken: TakenSpans = range_protocol.read_taken(answer.headers)
        assert (taken.number, taken.count) == (number, spans.count_of(found))
        if found:
            assert (taken.from_, taken.to) == (found[0][0], sum(found[-1]))
        return found

    def settle(self, queue: str, lease: str, **up_to: int) -> int:
        return int(self.ask("settle", queue=queue, lease=lease, **up_to).headers["count"])

    def release(self, queue: str, lease: str) -> int:
        return int(self.ask("release", queue=queue, lease=lease).headers["count"])

    def leases(self, queue: str | None = None) -> list[LeaseEntry]:
        answer = self.ask("leases") if queue is None else self.ask("leases", queue=queue)
        return range_protocol.read_leases(answer.body)

    def bodies(self, queue: str, found: list[Span]) -> list[bytes]:
        """Return the bodies of a take's messages."""
        bodies: list[bytes] = []
        at, to = found[0][0], sum(found[-1])
        while at < to:
            part, rows = self.read_part(queue, at, to, wanted=found)
            bodies, at = bodies + [row.body for row in rows], part.next
        return bodies

    # -- ordinary work --------------------------------------------------------------------------

    def publish(self, queue: str, *bodies: bytes, mode: int = 2, **properties: Any) -> None:
        """Publish to a queue, and wait for the confirm if confirms are on."""
        for body in bodies:
            self.channel.basic_publish(
                "", queue, body, pika.BasicProperties(delivery_mode=mode, **properties)
            )

    def drain(self, queue: str) -> list[tuple[bytes, bool]]:
        """Get all ready messages: bodies, and whether each is marked as redelivered."""
        found: list[tuple[bytes, bool]] = []
        while True:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((body, method.redelivered))

    def close(self) -> None:
        self.connection.close()
