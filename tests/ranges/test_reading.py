"""Range reads on one real node: repeatable, in parts, of what is on disk and what is in memory only."""

from __future__ import annotations

import time

import pika
import pytest

from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.range_limits import READS_IN_FLIGHT_MAX
from mirrormq.sequences.spans import Span
from mirrormq.wire.properties import decode_properties
from tests.brokers.mirrormq import MirrorMQ
from tests.ranges.range_requests import Asker, Refused, bodies


@pytest.mark.parametrize("mode", [1, 2])
def test_a_range_is_read_again_and_again(range_client: Asker, queue: str, mode: int) -> None:
    range_client.publish(queue, *bodies(100), mode=mode)
    extent = range_client.extent(queue)
    assert (extent.first, extent.next, extent.ready, extent.durable) == (1, 101, 100, True)
    assert extent.ready_bytes == sum(map(len, bodies(100)))
    assert extent.synchronised == (extent.master,)
    for _ in range(2):
        rows = range_client.read(queue, extent.first, extent.next)
        assert [row.body for row in rows] == bodies(100)
        assert [row.sequence for row in rows] == list(range(1, 101))
        assert not any(row.redelivered for row in rows)
    assert range_client.drain(queue) == [(body, False) for body in bodies(100)]


@pytest.mark.parametrize("mode", [1, 2])
def test_a_read_has_the_ingestion_times_if_it_asks_for_them(
    range_client: Asker, queue: str, mode: int
) -> None:
    times = [time.time() * 1000]
    for _ in range(2):
        range_client.publish(queue, *bodies(5), mode=mode)
        time.sleep(0.05)
        times.append(time.time() * 1000)
    rows = range_client.read(queue, 1, 11)
    for number, row in enumerate(rows):
        assert times[number // 5] - 20 <= row.ingested_ms <= times[number // 5 + 1]
    time.sleep(0.05)
    assert range_client.read(queue, 1, 11) == rows
    answer = range_client.ask("read", queue=queue, from_=1, to=11, limit_bytes=1 << 20)
    without = RangeBatch(answer.body)
    assert without.ingested_ms is None and len(without) == 10, "the form that earlier clients know"


def test_a_node_sends_only_messages_of_the_requested_times(range_client: Asker, queue: str) -> None:
    for first in range(0, 9, 3):
        range_client.publish(queue, *bodies(9)[first : first + 3], mode=1 + first % 2)
        time.sleep(0.05)
    rows = range_client.read(queue, 1, 10)

    def found(first_ms: int, end_ms: int) -> list[tuple[int, bytes, int]]:
        headers = {"queue": queue, "from_": 1, "to": 10, "limit_bytes": 1 << 20, "with_ingestion_times": True}
        answer = range_client.ask("read", **headers, ingested_from=first_ms, ingested_to=end_ms)
        assert range_protocol.read_part(answer.headers) == range_protocol.RangePart(1, 10, 10)
        return [(row.sequence, row.body, row.ingested_ms) for row in RangeBatch(answer.body)]

    expected = [(row.sequence, row.body, row.ingested_ms) for row in rows]
    second, third = rows[3].ingested_ms, rows[6].ingested_ms
    assert rows[2].ingested_ms < second <= rows[5].ingested_ms < third
    assert found(second, third) == expected[3:6]
    assert found(second, third + 60_000) == expected[3:]
    assert found(0, second) == expected[:3]
    assert found(third + 60_000, third + 70_000) == []


def test_an_envelope_says_exchange_key_and_properties(range_client: Asker, queue: str) -> None:
    range_client.channel.queue_bind(queue, "amq.topic", "a.#")
    properties = pika.BasicProperties(message_id="m1", headers={"n": 1}, delivery_mode=2)
    range_client.channel.basic_publish("amq.topic", "a.b", b"body", properties)
    (row,) = range_client.read(queue, 1, 2)
    assert (row.envelope.exchange, row.envelope.routing_key) == (b"amq.topic", b"a.b")
    decoded = decode_properties(row.envelope.properties, 0)
    assert (decoded.message_id, decoded.delivery_mode) == ("m1", 2)


def test_parts_are_as_large_as_allowed_and_go_on_where_the_last_ended(
    range_client: Asker, queue: str
) -> None:
    range_client.publish(queue, *[b"x" * 1000] * 50)
    part, rows = range_client.read_part(queue, 1, 51, 10_500)
    assert (len(rows), part.from_, part.next, part.to) == (10, 1, 11, 51)
    part, rows = range_client.read_part(queue, part.next, 51, 1)
    assert (len(rows), part.next) == (1, 12), "one message is given, however small the limit"
    assert len(range_client.read(queue, 12, 51, 3_000)) == 39
    assert range_client.read(queue, 51, 200) == []


def test_a_body_of_many_frames_is_given_whole(range_client: Asker, queue: str) -> None:
    body = bytes(range(256)) * 4096 * 3
    range_client.publish(queue, b"small", body, b"", mode=1)
    assert [row.body for row in range_client.read(queue, 1, 4)] == [b"small", body, b""]


def test_removed_messages_are_absent_and_held_ones_are_not(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(10))
    held = [range_client.channel.basic_get(queue)[0] for _ in range(4)]
    range_client.channel.basic_ack(held[1].delivery_tag)
    rows = range_client.read(queue, 1, 11)
    assert [row.body for row in rows] == [b"0", *bodies(8, 2)]
    assert [row.redelivered for row in rows] == [True] * 3 + [False] * 6
    assert range_client.extent(queue).first == 1


def test_only_the_requested_spans_are_read(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *bodies(20))
    part, rows = range_client.read_part(queue, 3, 18, wanted=[Span(1, 3), Span(6, 1), Span(17, 5)])
    assert [row.sequence for row in rows] == [3, 6, 17]
    assert part.next == 18


def test_a_queue_that_is_declared_again_is_another(range_client: Asker, queue: str) -> None:
    before = range_client.extent(queue).id
    range_client.channel.queue_delete(queue)
    range_client.channel.queue_declare(queue, durable=True)
    assert range_client.extent(queue).id != before


def test_wrong_requests_are_answered_and_the_channel_stays_open(range_client: Asker, queue: str) -> None:
    for code, ask, values in (
        (404, "extent", {"queue": "nowhere"}),
        (406, "nonsense", {}),
        (406, "extent", {}),
        (406, "read", {"queue": queue, "from": 5, "to": 1}),
        (406, "read", {"queue": queue, "from": -5, "to": 1}),
        (406, "read", {"queue": queue, "from": "a", "to": 1}),
        (404, "renew", {"queue": queue, "lease": "none"}),
    ):
        with pytest.raises(Refused) as refused:
            range_client.ask(ask, **values)
        assert refused.value.code == code
    with pytest.raises(Refused, match="no queue 'nowhere' in vhost '/'"):
        range_client.extent("nowhere")
    with pytest.raises(Refused, match="spans"):
        range_client.ask("read", b"abc", queue=queue, from_=1, to=2)
    assert range_client.extent(queue).ready == 0


def test_a_question_without_a_way_back_closes_the_channel(range_client: Asker) -> None:
    other = range_client.connection.channel()
    other.basic_publish("", "amq.mirrormq.ranges", b"", pika.BasicProperties(headers={"ask": "leases"}))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="reply_to"):
        other.queue_declare("x", passive=True)


def test_reads_need_the_right_to_read_and_nothing_else(
    mirrormq: MirrorMQ, range_client: Asker, queue: str
) -> None:
    range_client.publish(queue, b"secret")
    mirrormq.control("add_user", "reader", "secret")
    try:
        mirrormq.control("set_permissions", "-p", "/", "reader", "^$", "^$", f"^{queue}$")
        reader = Asker(f"amqp://reader:secret@127.0.0.1:{mirrormq.amqp_port}/%2F")
        assert [row.body for row in reader.read(queue, 1, 2)] == [b"secret"]
        mirrormq.control("set_permissions", "-p", "/", "reader", ".*", ".*", "^$")
        for ask in ("extent", "read", "take", "settle", "release", "leases"):
            with pytest.raises(Refused) as refused:
                reader.ask(ask, queue=queue, lease="l", number=1, messages=1, from_=1, to=2)
            assert refused.value.code == 403
            assert refused.value.text == (
                f"ACCESS_REFUSED - access to queue '{queue}' in vhost '/' refused for user 'reader'"
            )
        reader.close()
    finally:
        mirrormq.control("delete_user", "reader")


def test_a_client_may_have_some_reads_under_way_and_no_more(range_client: Asker, queue: str) -> None:
    range_client.publish(queue, *[b"x" * 100_000] * 40)
    range_client.extent(queue)
    question = {"ask": "read", "queue": queue, "from": 1, "to": 41, "limit_bytes": 1 << 21}
    with range_client.connection.channel():  # a round trip: what follows is read in one piece
        numbers = [range_client.put(question) for _ in range(READS_IN_FLIGHT_MAX + 3)]
    refused = 0
    for number in numbers:
        try:
            range_client.wait(number)
        except Refused as error:
            assert "reads in progress" in error.text
            refused += 1
    assert refused <= 3
    assert len(range_client.read(queue, 1, 41)) == 40
