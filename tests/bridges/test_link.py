"""Links between two real brokers in this process: states, modes, refusals, limits."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from mirrormq.bridges.link import SETUP_TIMEOUT_MS, STOP_TIMEOUT_MS, Phase, Side
from mirrormq.bridges.link_plan import AckMode, Destination, LinkPlan, Outgoing, Source
from mirrormq.client.amqp_uri import parse_amqp_uri
from mirrormq.client.client_events import Closed, CloseReason
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of
from tests.bridges.link_bench import LinkBench, drained, filled, plan_between_queues


@pytest.mark.parametrize("mode", list(AckMode))
def test_a_link_moves_all_messages_in_order(mode: AckMode) -> None:
    bench = LinkBench(plan_between_queues(ack_mode=mode))
    filled(bench, 100)
    assert bench.link.status().state == "starting"
    bench.start()
    bench.settle()
    assert bench.link.status().state == "running"
    assert bench.source.counts("from") == (0, 0)
    assert bench.link.forwarded == 100
    assert drained(bench.destination, "to") == list(range(100))


def test_a_link_declares_missing_queues() -> None:
    bench = LinkBench(plan_between_queues())
    bench.start()
    bench.settle()
    assert bench.link.status().state == "running"
    assert bench.source.metadata.state.queues["/", "from"].durable
    assert bench.destination.metadata.state.queues["/", "to"].durable


def test_a_refused_login_is_the_reason_of_the_state_and_running_ends_it() -> None:
    bench = LinkBench(plan_between_queues())
    bench.refuse[Side.DESTINATION] = Closed(CloseReason.LOGIN_REFUSED, "ACCESS_REFUSED - Login was refused")
    bench.start()
    bench.settle()
    status = bench.link.status()
    assert (status.state, status.attempts) == ("terminated", 1)
    assert "ACCESS_REFUSED - Login was refused" in status.reason
    assert status.next_attempt_ms == 5_000
    bench.advance(5_000)
    assert (bench.link.status().state, bench.link.status().attempts) == ("terminated", 2)
    bench.refuse.clear()
    bench.advance(5_000)
    assert (bench.link.status().state, bench.link.status().reason) == ("running", "")


def test_uris_are_tried_in_order_before_the_pause() -> None:
    plan = plan_between_queues()
    uris = tuple(parse_amqp_uri(f"amqp://source:{port}") for port in (1, 2, 3))
    source = Source(uris, plan.source.setup, 10)
    bench = LinkBench(LinkPlan("test", source, plan.destination, plan.transform))
    bench.refuse[Side.SOURCE] = Closed(CloseReason.CONNECT_FAILED, "refused")
    bench.start()
    for _ in range(3):
        bench.advance(0)
    assert [uri.port for uri in bench.tried] == [1, 2, 3]
    assert bench.link.status().next_attempt_ms == 5_000


@pytest.mark.parametrize("delay_s", [0.0, -1.0])
def test_a_delay_of_zero_means_no_further_attempt(delay_s: float) -> None:
    bench = LinkBench(plan_between_queues(reconnect_delay_s=delay_s))
    bench.refuse[Side.SOURCE] = Closed(CloseReason.CONNECT_FAILED, "refused")
    bench.start()
    bench.settle()
    assert bench.link.status().state == "terminated"
    assert bench.link.wake_ms is None


def test_a_full_destination_gets_one_message_per_pause_and_order_is_kept() -> None:
    bench = LinkBench(plan_between_queues(prefetch=50))
    client = bench.destination.connect()
    arguments = table_of({"x-max-length": 5, "x-overflow": "reject-publish"})
    client.call(methods.encode_queue_declare("to", durable=True, arguments=arguments))
    filled(bench, 20)
    bench.start()
    bench.settle()
    status = bench.link.status()
    assert status.state == "blocked" and status.reason.startswith("rejected: ")
    refused_at_first = status.refused
    for _ in range(20):
        bench.advance(1_000)
    assert bench.link.status().refused <= refused_at_first + 10, "the pause grows"
    moved: list[int] = []
    for _ in range(20):
        moved += drained(bench.destination, "to")
        bench.advance(5_000)
    assert bench.link.status().state == "running"
    assert bench.source.counts("from") == (0, 0)
    assert moved == list(range(20))


def test_an_unroutable_message_stays_in_the_source() -> None:
    bench = LinkBench(plan_between_queues())
    filled(bench, 5)
    bench.start()
    client = bench.destination.connect()
    bench.settle()
    drained(bench.destination, "to")
    client.call(methods.encode_queue_delete("to"))
    filled(bench, 5)
    bench.settle()
    status = bench.link.status()
    assert status.state == "blocked" and status.reason.startswith("unroutable: ")
    assert bench.source.counts("from") == (0, 5)
    client.call(methods.encode_queue_declare("to", durable=True))
    for _ in range(5):
        bench.advance(5_000)
    assert bench.link.status().state == "running"
    assert drained(bench.destination, "to") == list(range(5))


def test_without_mandatory_an_unroutable_message_is_dropped() -> None:
    bench = LinkBench(plan_between_queues(mandatory=False))
    bench.start()
    bench.settle()
    bench.destination.connect().call(methods.encode_queue_delete("to"))
    filled(bench, 5)
    bench.settle()
    assert bench.link.status().state == "running"
    assert bench.source.counts("from") == (0, 0)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    bench = LinkBench(plan_between_queues(limit=225))
    bench.start()
    bench.settle()
    for _ in range(20):
        filled(bench, 10)
        bench.advance(1_000)
    rate = bench.link.rate_per_s(bench.now_ms)
    status = msgspec.structs.replace(bench.link.status(), rate=rate)
    assert (rate, status.remaining, status.eta_s) == (11.0, 25, 3), "ten seconds, eleven batches"
    bench.advance(5_000)
    assert bench.link.rate_per_s(bench.now_ms) == 6.0
    assert bench.link.rate_per_s(bench.now_ms + 10_001) == 0.0
    assert bench.link.status().eta_s == -1, "without a rate"


@pytest.mark.parametrize("prefetch", [1, 3, 4, 1000])
def test_a_limit_moves_that_many_and_touches_no_other(prefetch: int) -> None:
    bench = LinkBench(plan_between_queues(limit=4, prefetch=prefetch))
    client = filled(bench, 10)
    bench.start()
    bench.settle()
    assert bench.finished is True
    assert drained(bench.destination, "to") == [0, 1, 2, 3]
    left = []
    while (message := client.get("from", no_ack=True)) is not None:
        left.append((int(message.body or b""), message.method.redelivered))
    assert left == [(number, False) for number in range(4, 10)]


def test_queue_length_is_taken_at_the_start() -> None:
    bench = LinkBench(plan_between_queues(limit_to_ready=True))
    filled(bench, 7)
    bench.start()
    bench.settle()
    assert bench.finished is True and drained(bench.destination, "to") == list(range(7))


def test_an_empty_queue_finishes_a_link_of_queue_length_at_once() -> None:
    bench = LinkBench(plan_between_queues(limit_to_ready=True))
    bench.start()
    bench.settle()
    assert bench.finished is True


def test_a_missing_destination_exchange_is_the_reason() -> None:
    plan = plan_between_queues()
    lost = LinkPlan(
        "test",
        plan.source,
        plan.destination,
        lambda delivery, _source: plan.transform(delivery, _source)._replace(exchange="nosuch"),  # type: ignore[union-attr]
    )
    bench = LinkBench(lost)
    filled(bench, 1)
    bench.start()
    bench.settle()
    status = bench.link.status()
    assert status.state == "terminated"
    assert status.reason == "destination: NOT_FOUND - no exchange 'nosuch' in vhost '/'"
    assert bench.source.counts("from") == (1, 0)


@pytest.mark.parametrize("uris", [1, 3])
@pytest.mark.parametrize("mode", list(AckMode))
def test_a_link_that_fails_soon_after_its_start_waits(mode: AckMode, uris: int) -> None:
    plan = plan_between_queues(ack_mode=mode, prefetch=1)
    source = replace(plan.source, uris=plan.source.uris * uris)
    destination = replace(plan.destination, uris=plan.destination.uris * uris)
    nowhere = Outgoing("nosuch", "", b"\0\0", b"")
    lost = replace(plan, source=source, destination=destination, transform=lambda *_: nowhere)
    bench = LinkBench(lost)
    bench.start()
    filled(bench, 1)
    bench.settle()
    for _ in range(10 * uris):
        filled(bench, 1)
        assert bench.link.wake_ms is not None
        bench.advance(bench.link.wake_ms - bench.now_ms)
    assert bench.link.status().restarts == 1 + 10 * uris
    assert bench.now_ms == 50_000


def test_a_deleted_source_queue_ends_the_attempt() -> None:
    bench = LinkBench(plan_between_queues())
    client = filled(bench, 0)
    bench.start()
    bench.settle()
    bench.now_ms += 5_000
    client.call(methods.encode_queue_delete("from"))
    bench.settle()
    assert bench.link.status().state == "terminated"
    bench.advance(0)
    assert bench.link.status().state == "running", "the first retry is immediate"


def test_a_stopped_link_awaits_its_confirms() -> None:
    bench = LinkBench(plan_between_queues())
    filled(bench, 5)
    bench.start()
    for _ in range(1_000):
        for side in Side:
            for upwards in (True, False):
                if bench.link.transfer is None or not bench.link.transfer.unconfirmed_count:
                    bench.step(side, upwards, 20)
    assert bench.link.transfer is not None and bench.link.transfer.unconfirmed_count
    bench.link.stop(bench.now_ms)
    assert bench.link.phase is Phase.DRAINING
    bench.settle()
    assert bench.finished is False
    left, moved = drained(bench.source, "from"), drained(bench.destination, "to")
    assert moved + left == list(range(5)), "each message once: confirmed ones are acknowledged"


@pytest.mark.parametrize("running", [True, False])
def test_a_stopped_link_forwards_what_the_source_has_sent_without_acknowledgements(running: bool) -> None:
    bench = LinkBench(plan_between_queues(ack_mode=AckMode.NO_ACK))
    filled(bench, 5)
    bench.start()
    wanted = Phase.RUNNING if running else Phase.SUBSCRIBING
    for _ in range(1_000):
        for side in Side:
            for upwards in (True, False):
                if bench.link.phase is not wanted:
                    bench.step(side, upwards, 20)
    assert bench.link.phase is wanted
    filled(bench, 5)
    bench.step(Side.SOURCE, True)
    bench.link.stop(bench.now_ms)
    bench.settle()
    assert bench.finished is False
    left, moved = drained(bench.source, "from"), drained(bench.destination, "to")
    assert sorted(moved + left) == sorted([*range(5), *range(5)])


def test_a_stopped_link_waits_for_room_at_the_destination_without_acknowledgements() -> None:
    bench = LinkBench(plan_between_queues(ack_mode=AckMode.NO_ACK))
    filled(bench, 5)
    bench.accepts_output = False
    bench.start()
    bench.settle()
    bench.link.stop(bench.now_ms)
    bench.settle()
    assert bench.link.phase is Phase.DRAINING
    bench.accepts_output = True
    bench.link.proceed(bench.now_ms)
    bench.settle()
    assert bench.finished is False
    assert drained(bench.destination, "to") == list(range(5))


def test_a_stopped_link_waits_for_a_limited_time() -> None:
    bench = LinkBench(plan_between_queues())
    bench.start()
    bench.settle()
    bench.link.stop(bench.now_ms)
    assert bench.finished is None
    bench.now_ms += STOP_TIMEOUT_MS
    bench.link.tick(bench.now_ms)
    assert bench.finished is False


def test_output_that_is_not_accepted_holds_the_source() -> None:
    bench = LinkBench(plan_between_queues(ack_mode=AckMode.ON_PUBLISH))
    filled(bench, 30)
    bench.accepts_output = False
    bench.start()
    bench.settle()
    assert bench.source.counts("from") == (20, 10), "the prefetch count bounds what the link holds"
    bench.accepts_output = True
    bench.advance(0)
    assert drained(bench.destination, "to") == list(range(30))


def test_a_link_without_a_consumer_runs_and_consumes_on_demand() -> None:
    bench = LinkBench(plan_between_queues(consume_at_start=False))
    filled(bench, 3)
    bench.start()
    bench.settle()
    assert bench.link.status().state == "running" and bench.link.forwarded == 0
    bench.link.consume(True)
    bench.settle()
    assert bench.link.forwarded == 3
    bench.link.consume(False)
    bench.settle()
    filled(bench, 2)
    bench.settle()
    assert bench.link.forwarded == 3


def test_a_prefetch_of_zero_is_bounded_too() -> None:
    plan = plan_between_queues(prefetch=0)
    assert isinstance(plan.destination, Destination)
    bench = LinkBench(plan)
    filled(bench, 50)
    bench.start()
    bench.settle()
    assert drained(bench.destination, "to") == list(range(50))


def test_a_closing_link_survives_that_the_destination_answers_first() -> None:
    bench = LinkBench(plan_between_queues(limit=3))
    filled(bench, 3)
    bench.start()
    for _ in range(100):
        if bench.link.phase is Phase.CLOSING:
            break
        for side in Side:
            bench.step(side, True)
            bench.step(side, False)
    assert bench.link.phase is Phase.CLOSING
    bench.step(Side.DESTINATION, True)
    bench.step(Side.DESTINATION, False)
    assert Side.DESTINATION not in bench.link._connections
    assert bench.link.wake_ms is not None, "it waits for the source's answer, no longer than its limit"
    bench.settle()
    assert bench.finished


def test_a_broker_that_answers_no_request_is_given_up() -> None:
    bench = LinkBench(plan_between_queues())
    bench.start()
    bench.step(Side.SOURCE, True)
    for _ in range(20):
        bench.step(Side.SOURCE, True)
        bench.step(Side.SOURCE, False)
        if Side.DESTINATION in bench.link._connections:
            break
        bench.step(Side.DESTINATION, True)
        bench.step(Side.DESTINATION, False)
    assert bench.link.phase is Phase.DESTINATION_SETUP
    assert bench.link.wake_ms == SETUP_TIMEOUT_MS
    bench.now_ms = SETUP_TIMEOUT_MS
    bench.link.tick(bench.now_ms)
    status = bench.link.status()
    assert status.state == "terminated"
    assert status.reason == "destination: the broker did not answer the link's requests within 30 s"


def test_a_link_stops_reading_while_it_holds_its_share_of_memory() -> None:
    bench = LinkBench(plan_between_queues(held_bytes_max=30, prefetch=0))
    bench.accepts_output = False
    filled(bench, 100)
    bench.start()
    bench.settle()
    held = [bench.reading]
    bench.accepts_output = True
    bench.advance(1)
    held.append(bench.reading)
    assert held == [False, True]
    assert drained(bench.destination, "to") == list(range(100))
